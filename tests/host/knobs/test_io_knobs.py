"""The io controller's knobs on a node whose kernel refuses what it refuses."""

import errno

import pytest
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.restore import RestoreOutcome

from tests.host.conftest import STRATEGY, MakeNode, Node, desired, only, outcomes
from tests.host.resource_executor.test_survival import KilledError, kill

POD = "kubepods/besteffort/pod1"
RBPS, WIOPS = "blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device"
WEIGHT, QOS, MODEL = "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"
COST = "8:0 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000"
USER = "8:0 ctrl=user rbps=9 rseqiops=8 rrandiops=7 wbps=6 wseqiops=5 wrandiops=4"


@pytest.fixture
def disks(make_node: MakeNode) -> Node:
    return make_node(2, devices=("8:0", "8:16"))


def test_limits_of_a_disk_share_a_line_and_are_put_back_one_by_one(disks: Node) -> None:
    disks.set(POD, RBPS, "8:0 rbps=100 wbps=7")
    disks.set_desired(desired(POD, RBPS, "8:0 4096"), owner=STRATEGY)
    disks.set_desired(desired(POD, WIOPS, "8:0 10"), owner=STRATEGY, scope="other")
    assert {one.outcome for one in disks.later().results} == {Outcome.UNCHANGED}
    assert disks.value(POD, RBPS) == "8:0 rbps=4096 wbps=7 riops=max wiops=10"
    assert only(disks.let_go()).outcome is Outcome.WRITTEN
    assert disks.value(POD, RBPS) == "8:0 rbps=100 wbps=7 riops=max wiops=10"
    disks.let_go(scope="other")
    assert disks.value(POD, RBPS) == "8:0 rbps=100 wbps=7 riops=max wiops=max"
    assert len(disks.baselines) == 0


def test_a_weight_waits_for_the_disks_cost_model(disks: Node) -> None:
    result = only(disks.set_desired(desired(POD, WEIGHT, "8:0 50"), owner=STRATEGY))
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EOPNOTSUPP)
    disks.set_desired(desired("", QOS, COST), owner=STRATEGY, scope="root")
    assert outcomes(disks.later())[POD, WEIGHT] is Outcome.WRITTEN
    assert disks.value(POD, WEIGHT) == "default 100\n8:0 50"
    disks.let_go()
    assert disks.value(POD, WEIGHT) == "default 100"


@pytest.mark.parametrize(("version", "vendor"), [(1, True), (2, False)])
@pytest.mark.parametrize("found", ["", "8:0 enable=1", "8:0 enable=1 rpct=90 rlat=7 min=50.00"])
def test_cost_of_a_disk(make_node: MakeNode, version: int, vendor: bool, found: str) -> None:
    node = make_node(version, vendor=vendor, devices=("8:0",))
    if found:
        node.set("", QOS, found)
    before = node.value("", QOS)
    done = node.set_desired(desired("", QOS, COST), desired("", MODEL, USER), owner=STRATEGY)
    assert set(outcomes(done).values()) == {Outcome.WRITTEN}
    assert node.value("", QOS).startswith("8:0 enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=95.00")
    assert node.value("", MODEL) == USER.replace("user", "user model=linear")
    assert {one.outcome for one in node.later().results} == {Outcome.UNCHANGED}
    assert {one.outcome for one in node.let_go().results} == {Outcome.WRITTEN}
    if found:
        assert node.value("", QOS) == before
    else:
        assert node.value("", QOS).startswith("8:0 enable=0")
    assert node.value("", MODEL).startswith("8:0 ctrl=auto")
    assert len(node.baselines) == 0


@pytest.mark.parametrize("dies_after", [1, 2])
@pytest.mark.parametrize(
    ("place", "knob", "lines"),
    [(POD, RBPS, "8:0 4096\n8:16 5"), ("", QOS, f"{COST}\n{COST.replace('8:0', '8:16')}")],
)
def test_what_a_kill_left_between_two_lines_is_put_back(
    disks: Node, monkeypatch: pytest.MonkeyPatch, dies_after: int, place: str, knob: str, lines: str
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
    report = disks.again().restore()
    assert {one.outcome for one in report.values()} == {RestoreOutcome.RESTORED}
    left = disks.value(place, knob)
    assert left == before or all("=max" in one or "enable=0" in one for one in left.splitlines())
