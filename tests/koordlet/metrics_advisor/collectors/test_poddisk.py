"""Reads and writes of pods, by the disk that they use most."""

from __future__ import annotations

import pytest
from koord_host.knobs.layout import Driver, Layout
from koordlet.metrics_advisor.collectors import poddisk
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources

from tests.koordlet.metrics_advisor.collectors.used_node import pod, values
from tests.support.text_tree import TextTree

V1 = "8:0 Read {0}\n8:0 Write 5\n8:0 Sync 9\n8:0 Total 9\n253:0 Read {1}\n253:0 Write 0\nTotal 99\n"
V2 = "8:0 rbytes={0} wbytes=5 rios=9 wios=9 dbytes=9 dios=0\n253:0 rbytes={1} wbytes=0\n7:0 \n"


@pytest.mark.parametrize(
    ("version", "file", "text"),
    [(1, "blkio.throttle.io_service_bytes_recursive", V1), (2, "io.stat", V2)],
)
def test_bytes_since_the_last_round(version: int, file: str, text: str) -> None:
    layout = Layout(version, Driver.CGROUPFS)
    path = f"{layout.group_path('kubepods/podu1', 'blkio')}/{file}"
    tree = TextTree()
    one = poddisk.Collector(CollectorSources(tree, layout))
    found = []
    for seconds, read in enumerate(((100, 100), (1100, 5100), (0, 0))):
        tree.texts[path] = text.format(*read)
        found.append(values(one.collect(CollectContext(0.0, seconds * 5.0, (pod(),)))))
    assert found == [{}, {("pod_disk_usage", "u1"): 1000.0}, {("pod_disk_usage", "u1"): 0.0}]
