"""Both hierarchies read the same; the real ones are read in the containerd tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_demo import cgroups
from koord_demo.cgroups import CgroupValues, read_values


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fill(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text + "\n")

    monkeypatch.setattr(cgroups, "group", lambda pid, controller: tmp_path)
    return fill


def test_v1(group):
    group(
        cpu__shares="512",
        cpu__cfs_quota_us="-1",
        cpu__cfs_period_us="100000",
        memory__limit_in_bytes="9223372036854771712",
        cpuset__cpus="0-1",
    )
    assert read_values(1) == CgroupValues(512, None, -1, 100_000, -1, "0-1")


def test_v2(group):
    group(cpu__weight="20", cpu__max="50000 100000", memory__max="max", cpuset__cpus="")
    assert read_values(1) == CgroupValues(None, 20, 50_000, 100_000, -1, "")


def test_v2_without_quota(group):
    group(cpu__max="max 100000", memory__max="4096")
    assert read_values(1) == CgroupValues(None, None, -1, 100_000, 4096, None)


def test_no_such_controller(monkeypatch):
    monkeypatch.setattr(cgroups, "group", lambda pid, controller: None)
    assert read_values(1) == CgroupValues(None, None, None, None, None, None)
