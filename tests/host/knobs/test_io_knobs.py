"""The io controller's knobs on a node whose kernel refuses what it refuses."""

import errno
from pathlib import Path

import pytest
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.restore import RestoreOutcome

from tests.host.conftest import STRATEGY, MakeNode, Node, desired, only, outcomes
from tests.host.resource_executor.test_survival import KilledError, again, kill, put_back

POD = "kubepods/besteffort/pod1"
RBPS, WIOPS = "blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device"
WEIGHT, QOS, MODEL = "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"
COST = "8:0 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000"
USER = "8:0 ctrl=user rbps=9 rseqiops=8 rrandiops=7 wbps=6 wseqiops=5 wrandiops=4"


@pytest.fixture
def disks(make_node: MakeNode) -> Node:
    return make_node(2, devices=("8:0", "8:16"))


def test_limits_of_a_disk_share_a_line(disks: Node) -> None:
    found = disks.set_desired(desired(POD, RBPS, "8:0 4096\n8:16 5"), desired(POD, WIOPS, "8:0 10"))
    assert set(outcomes(found).values()) == {Outcome.WRITTEN}
    assert disks.value(POD, RBPS).splitlines() == [
        "8:16 rbps=5 wbps=max riops=max wiops=max",
        "8:0 rbps=4096 wbps=max riops=max wiops=10",
    ]
    assert {one.outcome for one in disks.later().results} == {Outcome.UNCHANGED}


def test_limits_are_put_back_one_by_one(disks: Node) -> None:
    disks.set(POD, RBPS, "8:0 rbps=100 wbps=7")
    disks.set_desired(desired(POD, RBPS, "8:0 4096"), owner=STRATEGY)
    disks.set_desired(desired(POD, WIOPS, "8:0 10"), owner=STRATEGY, scope="other")
    disks.executor.forget(STRATEGY, "test")
    assert only(disks.executor.apply()).outcome is Outcome.WRITTEN
    assert disks.value(POD, RBPS) == "8:0 rbps=100 wbps=7 riops=max wiops=10"
    disks.executor.forget(STRATEGY, "other")
    disks.executor.apply()
    assert disks.value(POD, RBPS) == "8:0 rbps=100 wbps=7 riops=max wiops=max"
    assert len(disks.baselines) == 0


def test_a_disk_that_is_not_there(disks: Node) -> None:
    result = only(disks.set_desired(desired(POD, RBPS, "8:0 4096\n99:9 5")))
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.ENODEV)


def test_a_weight_waits_for_the_disks_cost_model(disks: Node) -> None:
    result = only(disks.set_desired(desired(POD, WEIGHT, "8:0 50"), owner=STRATEGY))
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EOPNOTSUPP)
    disks.set_desired(desired("", QOS, COST), owner=STRATEGY, scope="root")
    assert outcomes(disks.later())[POD, WEIGHT] is Outcome.WRITTEN
    assert disks.value(POD, WEIGHT) == "default 100\n8:0 50"
    disks.executor.forget(STRATEGY, "test")
    disks.executor.apply()
    assert disks.value(POD, WEIGHT) == "default 100"


@pytest.mark.parametrize(("version", "vendor"), [(1, True), (2, False)])
def test_cost_of_a_disk(make_node: MakeNode, version: int, vendor: bool) -> None:
    node = make_node(version, vendor=vendor, devices=("8:0",))
    found = node.set_desired(desired("", QOS, COST), desired("", MODEL, USER), owner=STRATEGY)
    assert set(outcomes(found).values()) == {Outcome.WRITTEN}
    shown = "rpct=95.00 rlat=3000 wpct=95.00 wlat=3000 min=1.00 max=10000.00"
    assert node.value("", QOS) == f"8:0 enable=1 ctrl=user {shown}"
    assert node.value("", MODEL) == USER.replace("user", "user model=linear")
    assert {one.outcome for one in node.later().results} == {Outcome.UNCHANGED}
    node.executor.forget(STRATEGY, "test")
    assert {one.outcome for one in node.executor.apply().results} == {Outcome.WRITTEN}
    assert node.value("", QOS).startswith("8:0 enable=0")
    assert node.value("", MODEL).startswith("8:0 ctrl=auto")
    assert len(node.baselines) == 0


def test_cost_that_somebody_had_set(disks: Node) -> None:
    disks.set("", QOS, "8:0 enable=1 rpct=90 rlat=7 min=50.00 max=150.00")
    before = disks.value("", QOS)
    disks.set_desired(desired("", QOS, COST), owner=STRATEGY)
    disks.executor.forget(STRATEGY, "test")
    disks.executor.apply()
    assert disks.value("", QOS) == before


def test_cost_that_the_kernel_had_chosen(disks: Node) -> None:
    disks.set("", QOS, "8:0 enable=1")
    before = disks.value("", QOS)
    disks.set_desired(desired("", QOS, COST), owner=STRATEGY)
    disks.executor.forget(STRATEGY, "test")
    disks.executor.apply()
    assert disks.value("", QOS) == before


def test_latency_targets(disks: Node) -> None:
    disks.set_desired(desired(POD, "io.latency", "8:0 500\n8:16 700"), owner=STRATEGY)
    disks.set_desired(desired(POD, "io.latency", "8:16 600"))
    assert disks.value(POD, "io.latency").splitlines() == ["8:16 target=600", "8:0 target=500"]
    disks.executor.forget(STRATEGY, "test")
    disks.executor.apply()
    assert disks.value(POD, "io.latency") == "8:16 target=600"


@pytest.mark.parametrize("knob", [WEIGHT, QOS, MODEL, "io.latency"])
def test_v1_of_mainline_has_none_of_it(node: Node, knob: str) -> None:
    value = {WEIGHT: "8:0 5", QOS: COST, MODEL: USER}.get(knob, "8:0 5")
    result = only(node.set_desired(desired("" if knob in (QOS, MODEL) else POD, knob, value)))
    assert result.outcome is Outcome.UNSUPPORTED


def test_restore_takes_away_devices_that_had_nothing(disks: Node) -> None:
    from koord_host.resource_executor.restore import RestoreOutcome, restore

    disks.set_desired(desired(POD, RBPS, "8:0 4096"), desired("", QOS, COST))
    report = restore(disks.files, disks.layout, disks.baselines, disks.journal, lambda: disks.now)
    assert {one.outcome for one in report} == {RestoreOutcome.RESTORED}
    assert disks.value(POD, RBPS) == ""
    assert disks.value("", QOS).startswith("8:0 enable=0")


@pytest.mark.parametrize("dies_after", [1, 2])
@pytest.mark.parametrize(
    ("place", "knob", "lines"),
    [(POD, RBPS, "8:0 4096\n8:16 5"), ("", QOS, f"{COST}\n{COST.replace('8:0', '8:16')}")],
)
def test_what_a_kill_left_between_two_lines_is_put_back(
    disks: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies_after: int,
    place: str,
    knob: str,
    lines: str,
) -> None:
    real, written = disks.files.write, []

    def write(path: str, text: str) -> None:
        if len(written) == dies_after:
            raise KilledError
        real(path, text)
        written.append(text)

    before = disks.value(place, knob)
    with monkeypatch.context() as patched:
        patched.setattr(disks.files, "write", write)
        patched.setattr(disks.baselines, "record_writes", kill)
        with pytest.raises(KilledError):
            disks.set_desired(desired(place, knob, lines), owner=STRATEGY)
    node = again(disks, tmp_path)
    report = put_back(node)
    assert {one.outcome for one in report.values()} == {RestoreOutcome.RESTORED}
    left = disks.value(place, knob)
    assert left == before or all("=max" in one or "enable=0" in one for one in left.splitlines())
