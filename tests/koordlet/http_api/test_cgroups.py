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
    own, one, gone = documents(version)
    assert (own["pod"], own["container"], own["group"]) == (
        *("batch/job", "", "kubepods/besteffort/podu1"),
    )
    assert (one["container"], one["group"]) == ("c-one", "kubepods/besteffort/podu1/one")
    assert (gone["container"], gone["knobs"]) == ("c-gone", [])
    knobs = {knob["knob"]: knob for knob in own["knobs"]}
    shares = knobs["cpu.shares"]
    assert isinstance(shares["value"], int)
    assert (shares["desired"], shares["owner"], shares["why"]) == (512, "hooks", "batch-cpu 500m")
    assert knobs["memory.limit_in_bytes"]["desired"] is None
    assert knobs["memory.limit_in_bytes"]["trouble"] == ""
    assert "cpu.shares" in [knob["knob"] for knob in one["knobs"]]


def test_what_is_desired_of_a_knob_that_is_not_there_is_shown() -> None:
    [missing] = [one for one in documents(2)[0]["knobs"] if one["knob"] == "cpu.bvt_warp_ns"]
    assert (missing["value"], missing["desired"]) == (None, -1)
    assert missing["trouble"]


def test_what_no_kernel_says_and_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: FakeCgroupfs, path: str) -> str:
        if path.endswith("cpu.shares"):
            return "many"
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(FakeCgroupfs, "read", read)
    troubles = {one["knob"]: one["trouble"] for one in documents(1)[0]["knobs"]}
    assert troubles == {"cpu.shares": "not understood", "cpu.bvt_warp_ns": "Permission denied"}
