"""Samples for thresholds of evictions: load, and space for images."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_host.filesystems import filesystem_space
from koord_host.kernel_files.filesystem_space import FilesystemSpace
from koordlet.metrics_advisor.collectors import imagefs, loadavg
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    UnavailableError,
)

from tests.koordlet.metrics_advisor.collectors.used_node import values
from tests.support.text_tree import TextTree
from tests.support.views import V2

NOW = CollectContext(0.0, 0.0)


def test_load_is_the_kernels_average_over_a_minute() -> None:
    tree = TextTree({"/proc/loadavg": "1.25 0.5 0.1 2/345 6789\n"})
    found = loadavg.Collector(CollectorSources(tree, V2)).collect(NOW)
    assert values(found) == {("node_load1",): 1.25}


def test_space_and_inodes_of_the_file_system_of_images(tmp_path: Path) -> None:
    sources = CollectorSources(
        TextTree({}), V2, image_fs_dir=str(tmp_path), filesystem=filesystem_space
    )
    found = values(imagefs.Collector(sources).collect(NOW))
    assert 0 < found["node_imagefs_available",] < found["node_imagefs_capacity",]
    without = CollectorSources(TextTree({}), V2, filesystem=lambda _: FilesystemSpace(1, 2, 0, 0))
    assert len(imagefs.Collector(without).collect(NOW).samples) == 2
    gone = CollectorSources(
        TextTree({}), V2, image_fs_dir=f"{tmp_path}/x", filesystem=filesystem_space
    )
    with pytest.raises(UnavailableError, match="--image-fs-dir"):
        imagefs.Collector(gone).collect(NOW)
