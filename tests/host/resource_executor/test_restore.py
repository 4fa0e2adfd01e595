import errno
from pathlib import Path

import pytest
from hypothesis import given
from koord_host.kernel import KernelFilesystem
from koord_host.planning.desired_values import Target
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, foresee, restore

from tests.host.conftest import HOOKS, V1, Node, desired, make_executor
from tests.host.states import State, assert_is, changes, desired_of, started

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
SHARES, IDLE, CPUS = "cpu.shares", "cpu.idle", "cpuset.cpus"


def test_foreseen_and_then_restored(node: Node) -> None:
    node.set_desired(desired(POD, CPUS, "0-7"), desired(CONTAINER, CPUS, "0-7"))
    node.set_desired(desired(POD, CPUS, "4-5"), desired(CONTAINER, CPUS, "4"))
    found = foresee(node.files, node.layout, node.baselines)
    assert [one.outcome for one in found] == [RestoreOutcome.RESTORED] * 2
    assert node.value(CONTAINER, CPUS) == "4"
    report = node.restore()
    assert [one.outcome for one in report.values()] == [RestoreOutcome.RESTORED] * 2
    assert report[Target(CONTAINER, CPUS)][2:4] == ("4", "0-15")
    assert node.value(CONTAINER, CPUS) == "0-15"
    assert [(one.owner, one.new) for one in node.changes()][-2:] == [("restore", "0-15")] * 2
    assert node.restore() == {}


def test_drift_is_left_unless_forced(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set(POD, SHARES, "7")
    for _ in range(2):
        [one] = node.restore().values()
        assert one.outcome is RestoreOutcome.SKIPPED
        assert one.reason == "changed by somebody else since"
    [one] = node.restore(force=True).values()
    assert one.outcome is RestoreOutcome.RESTORED
    assert node.value(POD, SHARES) == "1024"


def test_refused_is_kept_for_another_time(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    real = node.files.write
    node.files.write = lambda path, _text: real(path, "500")  # type: ignore[method-assign]
    reasons = [one.reason for one in node.restore().values()]
    node.set(POD, SHARES, "512")
    node.files.write = real  # type: ignore[method-assign]
    node.set(POD, SHARES, "512")
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    reasons += [one.reason for one in node.restore().values()]
    assert reasons == ["the kernel keeps 500", "Device or resource busy"]
    node.files.refusals.clear()
    assert [one.outcome for one in node.restore().values()] == [RestoreOutcome.RESTORED]


def test_shares_of_a_group_that_was_idle_before(node: Node) -> None:
    node.set(POD, IDLE, "1")
    node.set_desired(desired(POD, IDLE, 0), desired(POD, SHARES, 512))
    assert {at.knob: one.outcome for at, one in node.restore().items()} == {
        IDLE: RestoreOutcome.RESTORED,
        SHARES: RestoreOutcome.UNCHANGED,
    }
    assert node.value(POD, IDLE) == "1"


@pytest.mark.parametrize("idle", [(1,), (1, 0)])
def test_idling_costs_a_group_shares_that_nobody_wants(node: Node, idle: tuple[int, ...]) -> None:
    node.set(POD, SHARES, "77")
    for value in idle:
        node.set_desired(desired(POD, IDLE, value))
    changed = [(one.knob, one.old, one.new) for one in node.changes()]
    assert changed[:2] == [(IDLE, 0, 1), (SHARES, 77, 3)]
    node.restore()
    assert node.value(POD, SHARES) == "77"


def test_a_file_that_was_made_is_left(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text("{}")
    node.baselines.remember([BaselineValue(Target(str(path), "file"), 0, None, 0.0, "{}")])
    files = KernelFilesystem()
    [one] = restore(files, node.layout, node.baselines, node.journal, lambda: 0.0)
    assert one.outcome is RestoreOutcome.SKIPPED
    assert one.reason == "there was no such file; remove it"
    path.unlink()
    [one] = restore(files, node.layout, node.baselines, node.journal, lambda: 0.0)
    assert one.outcome is RestoreOutcome.GONE


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        (Target(POD, "cpu.sheep"), RestoreOutcome.GONE),  # of another release
        (Target(f"{BE}/../../../etc", SHARES), RestoreOutcome.REFUSED),
    ],
)
def test_what_no_run_of_this_release_wrote(
    node: Node, target: Target, outcome: RestoreOutcome
) -> None:
    node.baselines.remember([BaselineValue(target, 1, "1", 0.0, "2")])
    assert [one.outcome for one in node.restore().values()] == [outcome]


def test_v2_takes_no_empty_cpuset_from_a_group_with_tasks(node2: Node) -> None:
    node2.files.add_process(CONTAINER, 4711)
    node2.set_desired(desired(CONTAINER, CPUS, "4"))
    [one] = node2.restore().values()
    assert (one.outcome, one.old, one.new) == (RestoreOutcome.RESTORED, "4", "0-15")
    assert node2.value(CONTAINER, CPUS) == "0-15"


@given(changes())
def test_any_state_is_put_back_without_a_refusal(both: tuple[State, State]) -> None:
    before, after = both
    files, baselines = started(before), BaselineStore("")
    executor = make_executor(files, baselines=baselines)
    executor.set_desired(HOOKS, "all", tuple(desired_of(after, files)))
    executor.apply()
    report = restore(files, V1, baselines, Journal("", print), lambda: 0.0)
    assert {one.outcome for one in report} <= {RestoreOutcome.RESTORED, RestoreOutcome.UNCHANGED}
    assert_is(before, files)
