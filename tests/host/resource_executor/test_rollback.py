"""What strategies drop is put back: by the executor, after a kill too, and by ``restore``."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from koord_host.planning.desired_values import Owner, Priority, Target
from koord_host.planning.outcomes import EMPTY, Outcome
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.restore import RestoreOutcome

from tests.host.conftest import (
    HOOKS,
    STRATEGY,
    MakeNode,
    Node,
    desired,
    make_executor,
    only,
    outcomes,
)
from tests.host.states import State, assert_is, changes, desired_of, started

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
POD2, SHARES, IDLE, CPUS = f"{BE}/pod2", "cpu.shares", "cpu.idle", "cpuset.cpus"
QUOTA, BPS = "cpu.cfs_quota_us", "blkio.throttle.read_bps_device"
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
OPERATOR = Owner("operator", Priority.OPERATOR)

OTHER = Owner("cpuburst", Priority.STRATEGY)


@pytest.mark.parametrize(
    ("steps", "value", "left"),
    [
        ([(STRATEGY, 300), (STRATEGY, 200), (STRATEGY, None)], 1024, 0),
        ([(HOOKS, 512), (STRATEGY, 300), (STRATEGY, None)], 512, 1),
        ([(HOOKS, 512), (STRATEGY, 300), (STRATEGY, None), (HOOKS, None)], 512, 1),
        ([(HOOKS, 512), (HOOKS, None)], 512, 1),
        ([(OPERATOR, 512), (OPERATOR, None)], 512, 1),
        ([(STRATEGY, 300), (OTHER, 200), (STRATEGY, None), (OTHER, None)], 1024, 0),
        ([(HOOKS, 512), (STRATEGY, 512), (HOOKS, None), (STRATEGY, None)], 1024, 0),
        ([(STRATEGY, 512), (HOOKS, 512), (STRATEGY, None), (HOOKS, None)], 512, 1),
        ([(STRATEGY, 1024), (STRATEGY, None)], 1024, 0),
        ([(STRATEGY, 300), (STRATEGY, None), (STRATEGY, 400), (STRATEGY, None)], 1024, 0),
        ([(STRATEGY, 300), (STRATEGY, 1)], 1024, 0),  # out of range counts as dropped
    ],
)
def test_owners_come_and_go(
    node: Node, steps: list[tuple[Owner, int | None]], value: int, left: int
) -> None:
    for owner, wanted in steps:
        if wanted is None:
            node.let_go(owner)
        else:
            node.set_desired(desired(POD, SHARES, wanted), owner=owner)
        node.later()
    assert node.value(POD, SHARES) == str(value)
    assert [one.strategy for one in node.baselines.all()] == [""] * left
    assert bool(node.files.writes) == any(wanted not in (None, 1024) for _, wanted in steps)


def test_both_drop_it_at_once(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.executor.forget(HOOKS, "test")
    assert only(node.let_go()).new == 1024


def test_what_a_result_and_the_journal_say(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 200), owner=STRATEGY)
    result = only(node.let_go())
    assert (result.outcome, result.old, result.new) == (Outcome.WRITTEN, 200, 1024)
    last = node.changes()[-1]
    assert (last.owner, last.pod, last.old, last.new) == ("cpusuppress", "ns/pod", 200, 1024)
    assert last.why == "no longer wanted: as it was found"
    assert node.later().results == ()


# ---- what is in the way


def _made_anew(node: Node) -> None:
    node.files.remove_group(POD)
    node.files.make_group(POD)
    node.set(POD, SHARES, "300")


@pytest.mark.parametrize(
    ("meanwhile", "outcome", "restored", "value"),
    [
        (lambda node: None, Outcome.WRITTEN, RestoreOutcome.RESTORED, "1024"),
        (lambda node: node.set(POD, SHARES, "1024"), Outcome.UNCHANGED, RestoreOutcome.UNCHANGED,
         "1024"),
        (lambda node: node.files.remove_group(POD), Outcome.GONE, RestoreOutcome.GONE, None),
        (_made_anew, Outcome.GONE, RestoreOutcome.GONE, "300"),
        (lambda node: node.set(POD, SHARES, "7"), Outcome.YIELDED, RestoreOutcome.SKIPPED, "7"),
        (lambda node: node.files.set_text(node.path(POD, SHARES), "garbage"), Outcome.YIELDED,
         RestoreOutcome.REFUSED, "garbage"),
    ],
    ids=["nothing", "so already", "gone", "made anew", "drift", "garbage"],
)  # fmt: skip
@pytest.mark.parametrize("by", ["executor", "restore"])
def test_what_happened_meanwhile(
    node: Node,
    meanwhile: Callable[[Node], None],
    outcome: Outcome,
    restored: RestoreOutcome,
    value: str | None,
    by: str,
) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    meanwhile(node)
    if by == "executor":
        result = only(node.let_go())
        assert (result.outcome, result.old) == (outcome, 7 if value == "7" else result.old)
        if outcome is Outcome.YIELDED and value == "7":
            assert result.reason == "changed by somebody else since"
        assert node.nothing_is_left()
    else:
        assert [one.outcome for one in node.restore().values()] == [restored]
        kept = restored in (RestoreOutcome.SKIPPED, RestoreOutcome.REFUSED)
        assert len(node.restore()) == kept
    assert value is None or node.value(POD, SHARES) == value


@pytest.mark.parametrize("again", [False, True])
def test_refused_is_tried_again_unless_it_is_wanted_again(node: Node, again: bool) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    assert only(node.let_go()).outcome is Outcome.REFUSED
    assert node.later(0.5) is EMPTY
    assert only(node.later(0.5)).news is False
    node.files.refusals.clear()
    if again:
        found = node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
        assert only(found).outcome is Outcome.UNCHANGED
        assert node.later(2).results == ()
        assert node.value(POD, SHARES) == "300"
        node.let_go()
    else:
        assert only(node.later(2)).outcome is Outcome.WRITTEN
    assert node.value(POD, SHARES) == "1024"
    assert node.nothing_is_left()


def test_a_defect_loses_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    with monkeypatch.context() as patched:
        patched.setattr(node.executor._writer, "carry_out", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            node.let_go()
    node.executor.apply()
    assert node.value(POD, SHARES) == "1024"


# ---- knobs that bind each other


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shares", [None, 3000])
@pytest.mark.parametrize("by", ["executor", "restarted executor", "restore"])
def test_a_group_that_was_made_idle_has_its_shares_again(
    make_node: MakeNode, version: int, shares: int | None, by: str
) -> None:
    node = make_node(version)
    node.set(POD, SHARES, "77")
    before = node.files.read(node.path(POD, SHARES))
    if shares:
        node.set_desired(desired(POD, SHARES, shares), owner=STRATEGY, scope="shares")
    node.set_desired(desired(POD, IDLE, 1), owner=STRATEGY)
    if by == "restore":
        assert {one.outcome for one in node.restore().values()} == {RestoreOutcome.RESTORED}
    elif by == "executor":
        node.executor.forget(STRATEGY, "shares")
        node.let_go()
        assert node.nothing_is_left()
    else:
        node = node.again()
        node.executor.roll_back_undesired()
        node.executor.apply()
        assert node.nothing_is_left()
    assert node.value(POD, IDLE) == "0"
    assert node.files.read(node.path(POD, SHARES)) == before


def test_a_group_that_was_made_idle_has_the_hooks_shares_again(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, IDLE, 1), owner=STRATEGY)
    assert set(outcomes(node.let_go()).values()) == {Outcome.WRITTEN}
    assert node.value(POD, SHARES) == "512"


def test_shares_wait_until_a_group_idles_no_longer(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD, IDLE, 1), scope="idle")
    assert outcomes(node.let_go())[POD, SHARES] is Outcome.OVERRIDDEN
    node.set_desired(desired(POD, IDLE, 0), scope="idle")
    assert node.value(POD, SHARES) == "1024"
    node.executor.forget(HOOKS, "idle")
    assert [one.target.knob for one in node.baselines.all()] == [IDLE]


def test_the_limit_with_swap_goes_back_along(node: Node) -> None:
    for knob in (LIMIT, MEMSW):
        node.set(POD, knob, str(1 << 24))
    node.set_desired(desired(POD, LIMIT, 1 << 20), owner=STRATEGY)
    node.let_go()
    assert [node.value(POD, knob) for knob in (LIMIT, MEMSW)] == [str(1 << 24)] * 2
    assert node.nothing_is_left()


@pytest.mark.parametrize("tasks", [False, True])
@pytest.mark.parametrize("above_stays", [False, True])
def test_v2_groups_that_had_no_cpus_of_their_own_run_where_they_ran(
    node2: Node, above_stays: bool, tasks: bool
) -> None:
    """With tasks the kernel takes no empty set again; what groups above have holds for them."""
    if tasks:
        node2.files.add_process(CONTAINER, 7)
    cpus = [desired(place, CPUS, "2-3") for place in (BE, POD, CONTAINER)]
    node2.set_desired(*cpus, owner=STRATEGY)
    if above_stays:
        node2.set_desired(desired(BE, CPUS, "2-3"), scope="other")
    node2.let_go()
    assert node2.nothing_is_left() is not above_stays
    assert node2.value(CONTAINER, CPUS) == ("0-15" if tasks else "")
    effective = f"{node2.layout.group_path(CONTAINER, '')}/{CPUS}.effective"
    assert node2.files.read(effective).strip() == ("2-3" if above_stays else "0-15")
    # Not only now: it is not pinned to what was there above it in that moment.
    node2.set(BE, CPUS, "0-7")
    assert node2.files.read(effective).strip() == "0-7"


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
    node = node.again()
    node.set_desired(desired(POD, BPS, "8:0 60"), owner=STRATEGY)
    assert node.changes()[-1].new == "8:0 60\n8:32 5"
    node.let_go()
    assert node.changes()[-1].new == "8:0 100\n8:32 5"
    assert node.nothing_is_left()


@pytest.mark.parametrize("version", [1, 2])
def test_no_limit_is_found_and_put_back_on_a_vendors_kernel(
    make_node: MakeNode, version: int
) -> None:
    node = make_node(version, vendor=True)
    node.set_desired(desired(POD, "memory.high", 1 << 30), owner=STRATEGY)
    assert only(node.let_go()).outcome is Outcome.WRITTEN
    assert node.value(POD, "memory.high") == "max"
    assert node.nothing_is_left()


# ---- after a restart (kills: test_survival)


def test_what_an_earlier_run_left_is_put_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 300), desired(BE, SHARES, 300), owner=STRATEGY)
    node.set_desired(desired(POD2, SHARES, 512))
    node = node.again()
    of_another_release = Target(POD, "cpu.sheep")
    node.baselines.remember([BaselineValue(of_another_release, 1, "1", 0.0, "2", strategy="s")])
    node.set_desired(desired(BE, SHARES, 250), owner=STRATEGY)
    node.executor.roll_back_undesired()
    result = only(node.executor.apply())
    assert (result.target.place, result.new, result.owner) == (POD, 1024, "cpusuppress")
    assert [node.value(place, SHARES) for place in (POD, BE, POD2)] == ["1024", "250", "512"]
    node.executor.roll_back_undesired()
    assert node.executor.apply().results == ()
    node.let_go()
    assert node.value(BE, SHARES) == "1024"


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
    for strategy in ("", "cpusuppress"):
        baselines = BaselineStore(str(path), boot="b")
        [one] = baselines.all()
        assert (one.identity, one.text, one.ours, one.strategy) == (7, "1024", "512", strategy)
        baselines.set_owners([(one.target, "cpusuppress")])
        assert baselines.problem == ""
        baselines.close()


# ---- what it would be without strategies


def test_the_base_of_a_target(node2: Node) -> None:
    node, target = node2, Target(POD, QUOTA)
    node.set(POD, QUOTA, "50000")
    assert node.executor.base(target) is None
    node.set_desired(desired(POD, QUOTA, 20_000), owner=STRATEGY)
    assert node.executor.base(target) == 50_000
    node.set_desired(desired(POD, QUOTA, 40_000))
    node.set_desired(desired(POD, QUOTA, 30_000), scope="another")
    node.set_desired(desired(POD, QUOTA, 1), scope="invalid")
    assert node.executor.base(target) == 30_000
    node.let_go(HOOKS, "another")
    assert node.executor.base(target) == 40_000
    node.let_go(HOOKS)
    assert node.executor.base(target) == 50_000
    node.let_go()
    assert node.executor.base(target) is None


@pytest.mark.parametrize("text", [None, "garbage"])
def test_no_base_where_what_was_found_says_nothing(node: Node, text: str | None) -> None:
    target = Target(POD, SHARES)
    node.baselines.remember([BaselineValue(target, 1, text, 0.0)])
    assert node.executor.base(target) is None


def test_another_thread_may_ask_for_the_base(node: Node) -> None:
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
    files, baselines = started(before), BaselineStore("")
    executor = make_executor(files, baselines=baselines)
    executor.set_desired(STRATEGY, "all", tuple(desired_of(after, files)))
    executor.apply()
    executor.forget(STRATEGY, "all")
    executor.apply()
    assert_is(before, files)
    # The kernel keeps an idle group's shares itself.
    assert {one.target.knob for one in baselines.all()} <= {SHARES}
