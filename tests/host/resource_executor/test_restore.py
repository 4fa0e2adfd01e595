import errno
from pathlib import Path

import pytest
from hypothesis import given
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Target
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, RestoreResult, foresee, restore

from tests.host.conftest import HOOKS, MakeNode, Node, desired
from tests.host.planning.test_ordering_property import (
    OWNER,
    State,
    Strict,
    _assert_is,
    _wishes,
    changes,
)

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
SHARES, QUOTA, CPUS, IDLE = "cpu.shares", "cpu.cfs_quota_us", "cpuset.cpus", "cpu.idle"


def put_back(node: Node, **options: bool) -> dict[tuple[str, str], RestoreResult]:
    report = restore(
        node.files, node.layout, node.baselines, node.journal, lambda: node.now, **options
    )
    return {tuple(one.target): one for one in report}


def test_as_it_was_found(node: Node) -> None:
    node.set_desired(desired(POD, CPUS, "0-7"), desired(CONTAINER, CPUS, "0-7"))
    node.set_desired(desired(POD, CPUS, "4-5"), desired(CONTAINER, CPUS, "4"))
    found = foresee(node.files, node.layout, node.baselines)
    assert [one.outcome for one in found] == [RestoreOutcome.RESTORED] * 2
    assert node.value(CONTAINER, CPUS) == "4"
    report = put_back(node)
    assert [one.outcome for one in report.values()] == [RestoreOutcome.RESTORED] * 2
    assert report[CONTAINER, CPUS][2:4] == ("4", "0-15")
    assert node.value(CONTAINER, CPUS) == "0-15"
    assert [(one.owner, one.new) for one in node.changes()][-2:] == [("restore", "0-15")] * 2
    assert put_back(node) == {}


def test_groups_that_went_or_came_back_are_left(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), desired(f"{BE}/pod2", SHARES, 512))
    node.files.remove_group(POD)
    node.files.remove_group(f"{BE}/pod2")
    node.files.make_group(f"{BE}/pod2")
    node.set(f"{BE}/pod2", SHARES, "512")
    assert {one.outcome for one in put_back(node).values()} == {RestoreOutcome.GONE}
    assert node.value(f"{BE}/pod2", SHARES) == "512"


def test_what_others_have_changed_is_left_unless_forced(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set(POD, SHARES, "7")
    for _ in range(2):
        [one] = put_back(node).values()
        assert (one.outcome, one.reason) == (
            RestoreOutcome.SKIPPED,
            "changed by somebody else since",
        )
    assert node.value(POD, SHARES) == "7"
    [one] = put_back(node, force=True).values()
    assert one.outcome is RestoreOutcome.RESTORED
    assert node.value(POD, SHARES) == "1024"


def test_what_is_so_already(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set(POD, SHARES, "1024")
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.UNCHANGED]
    assert node.files.writes == []


def test_refused_is_kept_for_another_time(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    [one] = put_back(node).values()
    assert (one.outcome, one.reason) == (RestoreOutcome.REFUSED, "Device or resource busy")
    node.files.refusals.clear()
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.RESTORED]


def test_what_the_kernel_does_not_keep(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    real = node.files.write
    node.files.write = lambda path, _text: real(path, "500")  # type: ignore[method-assign]
    [one] = put_back(node).values()
    assert (one.outcome, one.reason) == (RestoreOutcome.REFUSED, "the kernel keeps 500")


def test_what_cannot_be_read(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.files.set_text(node.path(POD, SHARES), "garbage")
    [one] = put_back(node).values()
    assert one.outcome is RestoreOutcome.REFUSED


@pytest.mark.parametrize("version", [1, 2])
def test_an_idle_group_wakes_with_its_shares(make_node: MakeNode, version: int) -> None:
    node = make_node(version)
    path = node.path(POD, SHARES)
    node.set(POD, SHARES, "20")
    before = node.files.read(path)
    node.set_desired(desired(POD, SHARES, 3000))
    node.set_desired(desired(POD, IDLE, 1), scope="idle")
    assert {one.outcome for one in put_back(node).values()} == {RestoreOutcome.RESTORED}
    assert node.files.read(path) == before


@pytest.mark.parametrize("idle", [(1,), (1, 0)])
def test_idling_costs_a_group_shares_that_nobody_wished(node: Node, idle: tuple[int, ...]) -> None:
    node.set(POD, SHARES, "77")
    for value in idle:
        node.set_desired(desired(POD, IDLE, value))
    changed = [(one.knob, one.old, one.new) for one in node.changes()]
    assert changed[:2] == [(IDLE, 0, 1), (SHARES, 77, 3)]
    put_back(node)
    assert node.value(POD, SHARES) == "77"


def test_shares_of_a_group_that_was_idle_before(node: Node) -> None:
    node.set(POD, IDLE, "1")
    node.set_desired(desired(POD, IDLE, 0), desired(POD, SHARES, 512))
    report = put_back(node)
    assert report[POD, IDLE].outcome is RestoreOutcome.RESTORED
    assert report[POD, SHARES].outcome is RestoreOutcome.UNCHANGED
    assert node.value(POD, IDLE) == "1"


def test_a_file_that_was_made_is_left(node: Node, tmp_path: Path) -> None:
    from koord_host.kernel import KernelFilesystem
    from koord_host.resource_executor.baselines import BaselineValue

    path = tmp_path / "pods.json"
    path.write_text("{}")
    target = Target(str(path), "file")
    node.baselines.remember([BaselineValue(target, 0, None, 0.0, "{}")])
    [one] = restore(KernelFilesystem(), node.layout, node.baselines, node.journal, lambda: 0.0)
    assert (one.outcome, one.reason) == (
        RestoreOutcome.SKIPPED,
        "there was no such file; remove it",
    )
    path.unlink()
    [one] = restore(KernelFilesystem(), node.layout, node.baselines, node.journal, lambda: 0.0)
    assert one.outcome is RestoreOutcome.GONE


def test_a_knob_of_another_release(node: Node) -> None:
    from koord_host.resource_executor.baselines import BaselineValue

    node.baselines.remember([BaselineValue(Target(POD, "cpu.sheep"), 1, "1", 0.0, "2")])
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.GONE]


@given(changes())
def test_any_state_is_put_back_without_a_refusal(both: tuple[State, State]) -> None:
    from tests.host.planning.test_ordering_property import _executor

    before, after = both
    files = Strict(1, cpus="0-5")
    for group in before:
        files.make_group(group)
    first = _executor(files)
    first.set_desired(OWNER, "all", tuple(_wishes(before, files)))
    first.apply()
    # Another program begins here, and remembers what it finds.
    executor = _executor(files)
    files.strict = True
    executor.set_desired(HOOKS, "all", tuple(_wishes(after, files)))
    executor.apply()
    baselines: BaselineStore = executor._baselines
    report = restore(files, Layout(1, Driver.CGROUPFS), baselines, Journal("", print), lambda: 0.0)
    assert {one.outcome for one in report} <= {RestoreOutcome.RESTORED, RestoreOutcome.UNCHANGED}
    _assert_is(before, files)


def test_v2_takes_no_empty_cpuset_from_a_group_with_tasks(make_node: MakeNode) -> None:
    node = make_node(2)
    node.files.add_process(CONTAINER, 4711)
    node.set_desired(desired(CONTAINER, CPUS, "4"))
    [one] = put_back(node).values()
    assert (one.outcome, one.old, one.new) == (RestoreOutcome.RESTORED, "4", "0-15")
    assert node.value(CONTAINER, CPUS) == "0-15"
