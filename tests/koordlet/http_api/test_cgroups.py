"""What a pod's cgroups hold, beside what is desired of them."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import Owner, Priority
from koord_model.pod import Container, Pod
from koordlet.http_api.cgroups import cgroup_documents
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.fake_cgroupfs import FakeCgroupfs

LAYOUT = {version: Layout(version, Driver.CGROUPFS) for version in (1, 2)}
POD = Pod("job", "batch", "u1", cgroup_parent="/kubepods/besteffort/podu1")
RECORD = PodRecord(POD, {name: Container(POD, f"c-{name}", name) for name in ("one", "gone")})
DESIRED = {
    "kubepods/besteffort/podu1": [
        ("cpu.shares", ArbitratedValue(512, (Owner("hooks", Priority.HOOKS),), "batch-cpu 500m")),
        ("cpu.bvt_warp_ns", ArbitratedValue(-1, (Owner("hooks", Priority.HOOKS),))),
    ]
}


def documents(version: int) -> list[dict[str, Any]]:
    files = FakeCgroupfs(version)
    files.make_group("kubepods/besteffort/podu1")
    files.make_group("kubepods/besteffort/podu1/one")
    return cgroup_documents(RECORD, LAYOUT[version], files, lambda group: DESIRED.get(group, []))


@pytest.mark.parametrize("version", [1, 2])
def test_each_group_with_its_knobs(version: int) -> None:
    groups = documents(version)
    assert [(one["pod"], one["container"], one["group"]) for one in groups] == [
        ("batch/job", "", "kubepods/besteffort/podu1"),
        ("batch/job", "c-one", "kubepods/besteffort/podu1/one"),
        ("batch/job", "c-gone", "kubepods/besteffort/podu1/gone"),
    ]
    own, one, gone = ({knob["knob"]: knob for knob in each["knobs"]} for each in groups)
    assert gone == {}
    assert "cpu.shares" in one
    shares, limit = own["cpu.shares"], own["memory.limit_in_bytes"]
    assert isinstance(shares["value"], int)
    assert (shares["desired"], shares["owner"], shares["why"]) == (512, "hooks", "batch-cpu 500m")
    assert (limit["desired"], limit["problem"]) == (None, "")
    if version == 2:
        missing = own["cpu.bvt_warp_ns"]
        assert (missing["value"], missing["desired"], missing["problem"] != "") == (None, -1, True)


def test_what_no_kernel_says_and_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: FakeCgroupfs, path: str) -> str:
        if path.endswith("cpu.shares"):
            return "many"
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(FakeCgroupfs, "read", read)
    problems = {one["knob"]: one["problem"] for one in documents(1)[0]["knobs"]}
    assert problems == {"cpu.shares": "not understood", "cpu.bvt_warp_ns": "Permission denied"}
