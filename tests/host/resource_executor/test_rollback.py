"""What strategies leave is put back: wishes that go, kills, refusals, strangers, idle groups."""

from __future__ import annotations

import errno
import itertools
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Owner, Priority, Target
from koord_host.planning.outcomes import EMPTY, Outcome, Round
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal

from tests.host.conftest import HOOKS, OPERATOR, STRATEGY, MakeNode, Node, desired, only, outcomes
from tests.host.planning.test_ordering_property import (
    OWNER,
    State,
    Strict,
    _assert_is,
    _executor,
    _wishes,
    changes,
)

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
SHARES, IDLE, CPUS = "cpu.shares", "cpu.idle", "cpuset.cpus"
QUOTA, LIMIT, MEMSW = "cpu.cfs_quota_us", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
BPS = "blkio.throttle.read_bps_device"
OTHER = Owner("cpuburst", Priority.STRATEGY)


def let_go(node: Node, owner: Owner = STRATEGY) -> Round:
    node.executor.forget(owner, "test")
    return node.executor.apply()


def again(node: Node) -> Node:
    """The next run of the program, on the same node and the same files."""
    node.close()
    return Node(node.files, Path(node.journal_path).parent)


def nothing_is_left(node: Node) -> bool:
    return not node.executor._states and len(node.baselines) == 0


# ---- wishes that go


def test_what_a_strategy_wished_is_put_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD, SHARES, 200), owner=STRATEGY)
    result = only(let_go(node))
    assert (result.outcome, result.old, result.new) == (Outcome.WRITTEN, 200, 1024)
    assert node.value(POD, SHARES) == "1024"
    last = node.changes()[-1]
    assert (last.owner, last.pod, last.old, last.new) == ("cpusuppress", "ns/pod", 200, 1024)
    assert last.why == "no longer wanted: as it was found"
    assert nothing_is_left(node)
    assert node.later().results == ()


def test_hooks_wishes_stand_under_a_strategys(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    assert only(let_go(node)).new == 512
    # It is the hooks' value from now on, and stays when they go.
    assert let_go(node, HOOKS).results == ()
    assert node.value(POD, SHARES) == "512"
    assert [one.strategy for one in node.baselines.all()] == [""]


def test_both_go_at_once(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.executor.forget(HOOKS, "test")
    assert only(let_go(node)).new == 1024


@pytest.mark.parametrize("owner", [HOOKS, OPERATOR])
def test_what_others_wished_stays(node: Node, owner: Owner) -> None:
    node.set_desired(desired(POD, SHARES, 512), owner=owner)
    assert let_go(node, owner).results == ()
    assert node.value(POD, SHARES) == "512"


def test_another_strategy_may_still_want_it(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD, SHARES, 200), owner=OTHER)
    let_go(node)
    let_go(node, OTHER)
    assert node.value(POD, SHARES) == "1024"
    assert nothing_is_left(node)


def test_a_value_that_hooks_wrote_and_a_strategy_held_last(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 512), owner=STRATEGY)
    let_go(node, HOOKS)
    let_go(node)
    assert node.value(POD, SHARES) == "1024"


def test_a_value_that_became_the_hooks_without_a_write(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), owner=STRATEGY)
    node.set_desired(desired(POD, SHARES, 512))
    let_go(node)
    assert node.later().results[0].outcome is Outcome.UNCHANGED
    let_go(node, HOOKS)
    assert node.value(POD, SHARES) == "512"


def test_what_was_so_already_is_not_written(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 1024), owner=STRATEGY)
    assert let_go(node).results == ()
    assert node.files.writes == []


def test_a_wish_that_comes_back_is_written_anew(node: Node) -> None:
    for value in (300, 400):
        node.set_desired(desired(POD, SHARES, value), owner=STRATEGY)
        assert node.value(POD, SHARES) == str(value)
        let_go(node)
    assert node.value(POD, SHARES) == "1024"


def test_a_wish_that_becomes_invalid_counts_as_gone(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD, SHARES, 1), owner=STRATEGY)
    assert node.value(POD, SHARES) == "1024"


# ---- what is in the way


def test_a_group_that_is_gone(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.remove_group(POD)
    assert let_go(node).news == ()
    assert nothing_is_left(node)


def test_another_group_of_the_same_name(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.remove_group(POD)
    node.files.make_group(POD)
    node.set(POD, SHARES, "300")
    assert only(let_go(node)).outcome is Outcome.GONE
    assert node.value(POD, SHARES) == "300"
    assert nothing_is_left(node)


def test_a_strangers_value_stays(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set(POD, SHARES, "7")
    result = only(let_go(node))
    assert (result.outcome, result.old) == (Outcome.YIELDED, 7)
    assert result.reason == "changed by somebody else since"
    assert node.value(POD, SHARES) == "7"
    assert nothing_is_left(node)


def test_a_file_that_says_nothing_sensible_stays(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.set_text(node.path(POD, SHARES), "garbage")
    assert only(let_go(node)).outcome is Outcome.YIELDED


def test_a_file_that_was_made_stays(make_node: MakeNode, tmp_path: Path) -> None:
    from koord_host.kernel import KernelFilesystem

    node = make_node()
    path = str(tmp_path / "agent.json")
    executor = Executor(
        KernelFilesystem(),
        node.layout,
        node.journal,
        node.baselines,
        clock=lambda: 0.0,
        monotonic=lambda: node.now,
    )
    executor.set_desired(STRATEGY, "test", (desired(path, "file", "{}"),))
    executor.apply()
    executor.forget(STRATEGY, "test")
    result = only(executor.apply())
    assert (result.outcome, result.reason) == (
        Outcome.YIELDED,
        "there was no such file; remove it",
    )
    assert Path(path).read_text() == "{}"


def test_refused_is_tried_again(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    assert only(let_go(node)).outcome is Outcome.REFUSED
    assert node.later(0.5) is EMPTY
    assert only(node.later(0.5)).news is False
    node.files.refusals.clear()
    assert only(node.later(2)).outcome is Outcome.WRITTEN
    assert node.value(POD, SHARES) == "1024"
    assert nothing_is_left(node)


def test_wished_again_before_it_could_be_put_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    let_go(node)
    node.files.refusals.clear()
    assert (
        only(node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)).outcome
        is Outcome.UNCHANGED
    )
    assert node.later(1).results == ()
    assert node.value(POD, SHARES) == "300"
    let_go(node)
    assert node.value(POD, SHARES) == "1024"


def test_a_defect_loses_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    with monkeypatch.context() as patched:
        patched.setattr(node.executor._writer, "carry_out", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            let_go(node)
    node.executor.apply()
    assert node.value(POD, SHARES) == "1024"


# ---- knobs that bind each other


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shares", ["", "wished too"])
def test_a_group_that_was_made_idle_has_its_shares_again(
    make_node: MakeNode, version: int, shares: str
) -> None:
    node = make_node(version)
    node.set(POD, SHARES, "77")
    before = node.files.read(node.path(POD, SHARES))
    if shares:
        node.set_desired(desired(POD, SHARES, 3000), owner=STRATEGY)
    node.set_desired(desired(POD, IDLE, 1), owner=STRATEGY, scope="idle")
    node.executor.forget(STRATEGY, "idle")
    let_go(node)
    assert node.value(POD, IDLE) == "0"
    assert node.files.read(node.path(POD, SHARES)) == before
    assert nothing_is_left(node)


def test_a_group_that_was_made_idle_has_the_hooks_shares_again(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, IDLE, 1), owner=STRATEGY)
    assert outcomes(let_go(node)) == {
        (POD, IDLE): Outcome.WRITTEN,
        (POD, SHARES): Outcome.WRITTEN,
    }
    assert node.value(POD, SHARES) == "512"


def test_shares_wait_until_a_group_idles_no_longer(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD, IDLE, 1), scope="idle")
    assert outcomes(let_go(node))[POD, SHARES] is Outcome.OVERRIDDEN
    node.set_desired(desired(POD, IDLE, 0), scope="idle")
    assert node.value(POD, SHARES) == "1024"
    node.executor.forget(HOOKS, "idle")
    assert [one.target.knob for one in node.baselines.all()] == [IDLE]


def test_the_limit_with_swap_goes_back_along(node: Node) -> None:
    for knob in (LIMIT, MEMSW):
        node.set(POD, knob, str(1 << 24))
    node.set_desired(desired(POD, LIMIT, 1 << 20), owner=STRATEGY)
    assert node.value(POD, MEMSW) == str(1 << 20)
    let_go(node)
    assert [node.value(POD, knob) for knob in (LIMIT, MEMSW)] == [str(1 << 24)] * 2
    assert nothing_is_left(node)


def test_parents_and_children_in_order(node: Node) -> None:
    node.set_desired(desired(POD, CPUS, "4-5"), desired(CONTAINER, CPUS, "4"), owner=STRATEGY)
    node.files.writes.clear()
    let_go(node)
    assert [text for _, text in node.files.writes] == ["0-15", "0-15"]
    node.files.check()


def test_v2_takes_no_empty_cpuset_from_a_group_with_tasks(node2: Node) -> None:
    node2.files.add_process(CONTAINER, 4711)
    node2.set_desired(desired(CONTAINER, CPUS, "4"), owner=STRATEGY)
    result = only(let_go(node2))
    assert (result.outcome, result.old, result.new) == (Outcome.WRITTEN, "4", "0-15")
    assert node2.value(CONTAINER, CPUS) == "0-15"
    assert nothing_is_left(node2)


def test_v2_has_an_empty_cpuset_again_without_tasks(node2: Node) -> None:
    node2.set_desired(desired(CONTAINER, CPUS, "4"), owner=STRATEGY)
    let_go(node2)
    assert node2.value(CONTAINER, CPUS) == ""


@pytest.mark.parametrize("version", [1, 2])
def test_devices_have_again_what_they_had(make_node: MakeNode, version: int) -> None:
    node = make_node(version, devices=("8:0", "8:16", "8:32"))
    for line in ("8:0 100", "8:32 5"):
        node.set(POD, BPS, line if version == 1 else line.replace(" ", " rbps="))
    node.set_desired(desired(POD, BPS, "8:0 50\n8:16 200"), owner=STRATEGY)
    # One that is named no longer at once, the others when all is over.
    node.set_desired(desired(POD, BPS, "8:16 200"), owner=STRATEGY)
    assert node.executor.base(Target(POD, BPS)) == "8:0 100\n8:32 5"
    assert node.changes()[-1].new == "8:0 100\n8:16 200\n8:32 5"
    node.set_desired(desired(POD, BPS, "8:0 60"), owner=STRATEGY)
    assert node.changes()[-1].new == "8:0 60\n8:32 5"
    let_go(node)
    assert node.changes()[-1].new == "8:0 100\n8:32 5"
    assert nothing_is_left(node)


def test_devices_named_before_a_restart(make_node: MakeNode) -> None:
    node = make_node(devices=("8:0", "8:16"))
    node.set_desired(desired(POD, BPS, "8:0 50\n8:16 200"), owner=STRATEGY)
    node = again(node)
    node.set_desired(desired(POD, BPS, "8:0 50"), owner=STRATEGY)
    assert node.value(POD, BPS) == "8:0 50"
    let_go(node)
    assert node.value(POD, BPS) == ""


# ---- after a restart


def test_what_a_killed_run_left_is_put_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), desired(BE, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(f"{BE}/pod2", SHARES, 512))
    node = again(node)
    node.set_desired(desired(BE, SHARES, 250), owner=STRATEGY)
    node.executor.roll_back_undesired()
    result = only(node.executor.apply())
    assert (result.target.place, result.new, result.owner) == (POD, 1024, "cpusuppress")
    values = [node.value(place, SHARES) for place in (POD, BE, f"{BE}/pod2")]
    assert values == ["1024", "250", "512"]
    node.executor.roll_back_undesired()
    assert node.executor.apply() is EMPTY
    let_go(node)
    assert node.value(BE, SHARES) == "1024"


def test_what_an_idle_group_lost_in_an_earlier_run(node: Node) -> None:
    node.set(POD, SHARES, "77")
    node.set_desired(desired(POD, IDLE, 1), owner=STRATEGY)
    node = again(node)
    node.executor.roll_back_undesired()
    node.executor.apply()
    assert [node.value(POD, knob) for knob in (IDLE, SHARES)] == ["0", "77"]
    assert nothing_is_left(node)


class KilledError(BaseException):
    """Nothing of the program runs after this."""


def kill(*_: object) -> None:
    raise KilledError


@pytest.mark.parametrize("first", [(), (500,)])
@pytest.mark.parametrize("where", ["before the write", "after the write"])
def test_killed_while_writing(
    node: Node, monkeypatch: pytest.MonkeyPatch, where: str, first: tuple[int, ...]
) -> None:
    for value in first:
        node.set_desired(desired(POD, SHARES, value))
    with monkeypatch.context() as patched:
        if where == "before the write":
            patched.setattr(node.files, "write", kill)
        else:
            patched.setattr(node.baselines, "record_writes", kill)
        with pytest.raises(KilledError):
            node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node = again(node)
    node.executor.roll_back_undesired()
    node.executor.apply()
    assert node.value(POD, SHARES) == "1024"
    assert nothing_is_left(node)


def test_killed_while_putting_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    with monkeypatch.context() as patched:
        patched.setattr(node.baselines, "forget", kill)
        with pytest.raises(KilledError):
            let_go(node)
    node = again(node)
    node.executor.roll_back_undesired()
    assert only(node.executor.apply()).outcome is Outcome.UNCHANGED
    assert nothing_is_left(node)


def test_what_is_of_another_release(node: Node) -> None:
    from koord_host.resource_executor.baselines import BaselineValue

    sheep = BaselineValue(Target(POD, "cpu.sheep"), 1, "1", 0.0, "2", strategy="shepherd")
    node.baselines.remember([sheep])
    node.executor.roll_back_undesired()
    assert node.executor.apply().results == ()


def test_a_database_that_knows_no_strategies(tmp_path: Path) -> None:
    path = tmp_path / "originals.db"
    old = sqlite3.connect(path)
    old.executescript(
        """
        CREATE TABLE originals (
            place TEXT NOT NULL, knob TEXT NOT NULL, identity INTEGER NOT NULL,
            found TEXT, found_at REAL NOT NULL, ours TEXT, PRIMARY KEY (place, knob)
        ) WITHOUT ROWID, STRICT;
        CREATE TABLE boot (id TEXT NOT NULL) STRICT;
        INSERT INTO boot VALUES ('b');
        INSERT INTO originals VALUES ('a', 'cpu.shares', 7, '1024', 1.0, '512');
        """
    )
    old.close()
    reported: list[str] = []
    for strategy in ("", "cpusuppress"):
        baselines = BaselineStore(str(path), reported.append, boot="b")
        [one] = baselines.all()
        assert (one.identity, one.text, one.ours, one.strategy) == (7, "1024", "512", strategy)
        baselines.set_owners([(one.target, "cpusuppress")])
        baselines.close()
    assert reported == []


# ---- what it would be without strategies


def test_the_base_of_a_target(node: Node) -> None:
    target = Target(POD, SHARES)
    assert node.executor.base(target) is None
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    assert node.executor.base(target) == 1024
    node.set_desired(desired(POD, SHARES, 512))
    assert node.executor.base(target) == 512
    node.set_desired(desired(POD, SHARES, 1), scope="invalid")
    assert node.executor.base(target) == 512
    let_go(node, HOOKS)
    assert node.executor.base(target) == 1024
    let_go(node)
    assert node.executor.base(target) is None


def test_the_base_of_several_hooks(node: Node) -> None:
    node.set_desired(desired(POD, LIMIT, 1 << 24))
    node.set_desired(desired(POD, LIMIT, 1 << 22), scope="other")
    node.set_desired(desired(POD, LIMIT, 1 << 20), owner=STRATEGY)
    assert node.executor.base(Target(POD, LIMIT)) == 1 << 22


def test_the_base_in_cgroup_v1_terms(node2: Node) -> None:
    node2.set(POD, QUOTA, "50000")
    node2.set_desired(desired(POD, QUOTA, 20_000), owner=STRATEGY)
    assert node2.executor.base(Target(POD, QUOTA)) == 50_000


@pytest.mark.parametrize("text", [None, "garbage"])
def test_no_base_where_what_was_found_says_nothing(node: Node, text: str | None) -> None:
    from koord_host.resource_executor.baselines import BaselineValue

    target = Target(POD, SHARES)
    node.baselines.remember([BaselineValue(target, 1, text, 0.0)])
    assert node.executor.base(target) is None


def test_the_base_is_asked_for_by_another_thread(node: Node) -> None:
    target, found, over = Target(POD, SHARES), set(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            found.add(node.executor.base(target))

    node.set_desired(desired(POD, SHARES, 500))
    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(1000):
        node.executor.set_desired(HOOKS, "test", (desired(POD, SHARES, 500 + number % 2),))
    over.set()
    asking.join()
    assert found <= {500, 501}


# ---- any tree


@given(changes())
def test_strategies_leave_no_trace(both: tuple[State, State]) -> None:
    before, after = both
    files = Strict(1, cpus="0-5")
    for group in before:
        files.make_group(group)
    first = _executor(files)
    first.set_desired(OWNER, "all", tuple(_wishes(before, files)))
    first.apply()
    baselines = BaselineStore("", print)
    ticks = itertools.count()
    executor = Executor(
        files,
        Layout(1, Driver.CGROUPFS),
        Journal("", print),
        baselines,
        clock=lambda: 0.0,
        monotonic=lambda: float(next(ticks)),
    )
    files.strict = True
    executor.set_desired(STRATEGY, "all", tuple(_wishes(after, files)))
    executor.apply()
    executor.forget(STRATEGY, "all")
    executor.apply()
    _assert_is(before, files)
    left = {one.target.knob for one in baselines.all()}
    # The kernel keeps an idle group's shares itself.
    assert left <= {SHARES}


@pytest.mark.parametrize("above_stays", [False, True])
def test_groups_with_tasks_that_had_no_cpus_of_their_own_run_where_they_ran(
    make_node: MakeNode, above_stays: bool
) -> None:
    """On v2 the kernel takes no empty set again; what groups above have holds for them."""
    node = make_node(2)
    node.files.add_process(CONTAINER, 7)
    node.set_desired(
        *(desired(place, CPUS, "2-3") for place in (BE, POD, CONTAINER)), owner=STRATEGY
    )
    if above_stays:
        node.set_desired(desired(BE, CPUS, "2-3"), scope="other")
    let_go(node)
    assert nothing_is_left(node) is not above_stays
    effective = f"{node.layout.group_path(CONTAINER, '')}/{CPUS}.effective"
    assert node.files.read(effective).strip() == ("2-3" if above_stays else "0-15")
    # Not only now: it is not pinned to what was there above it in that moment.
    node.set(BE, CPUS, "0-7")
    assert node.files.read(effective).strip() == "0-7"


@pytest.mark.parametrize("version", [1, 2])
def test_no_limit_is_found_and_put_back_on_a_vendors_kernel(
    make_node: MakeNode, version: int
) -> None:
    node = make_node(version, vendor=True)
    assert node.value(POD, "memory.high") == "max"
    node.set_desired(desired(POD, "memory.high", 1 << 30), owner=STRATEGY)
    assert only(let_go(node)).outcome is Outcome.WRITTEN
    assert node.value(POD, "memory.high") == "max"
    assert nothing_is_left(node)
