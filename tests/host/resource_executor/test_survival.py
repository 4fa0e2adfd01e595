"""What happens at three in the morning: kills, full disks, names that are used again, days."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_host.kernel_files.processes import Process, in_group
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import DriftPolicy
from koord_host.planning.desired_values import Target
from koord_host.planning.outcomes import EMPTY, Outcome
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, RestoreResult, restore

from tests.host.conftest import HOOKS, MakeNode, Node, desired, only
from tests.support.node import FakeKernel as FakeNode

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
LAYOUT_1 = Layout(1, Driver.CGROUPFS)
SHARES, CPUS, SCORE = "cpu.shares", "cpuset.cpus", "oom_score_adj"


class KilledError(BaseException):
    """Nothing of the program runs after this."""


def kill(*_: object) -> None:
    raise KilledError


def again(node: Node, tmp_path: Path) -> Node:
    """The next run of the program, on the same node and the same files."""
    node.close()
    return Node(node.files, tmp_path / "0")


def put_back(node: Node) -> dict[Target, RestoreResult]:
    clock = lambda: node.now  # noqa: E731
    report = restore(node.files, node.layout, node.baselines, node.journal, clock)
    return {one.target: one for one in report}


# ---- kills


def killed(node: Node, where: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die in the round that writes this value: before its write, or before it is noted."""
    with monkeypatch.context() as patched:
        if where == "before the write":
            patched.setattr(node.files, "write", kill)
        else:
            patched.setattr(node.baselines, "record_writes", kill)
        with pytest.raises(KilledError):
            node.set_desired(desired(POD, SHARES, value))


@pytest.mark.parametrize("first", [(), (512,), (512, 300)])
@pytest.mark.parametrize("where", ["before the write", "after the write"])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_killed_round_may_have_written_is_put_back(
    node: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: tuple[int, ...],
    where: str,
    restarted: bool,
) -> None:
    for value in first:
        node.set_desired(desired(POD, SHARES, value))
    killed(node, where, 700, monkeypatch)
    node = again(node, tmp_path)
    if restarted:
        # Other writes go on, and the pod's may be as wished already.
        node.set_desired(desired(POD, SHARES, 700), desired(BE, SHARES, 99))
        node = again(node, tmp_path)
    put_back(node)
    assert node.value(POD, SHARES) == "1024"
    assert node.value(BE, SHARES) == "1024"


@pytest.mark.parametrize("where", ["before the write", "after the write"])
def test_what_others_set_after_a_kill_stays(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    killed(node, where, 700, monkeypatch)
    node.set(POD, SHARES, "7")
    node = again(node, tmp_path)
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.SKIPPED]
    assert node.value(POD, SHARES) == "7"


def test_doubts_end_with_the_next_write(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(node, "after the write", 700, monkeypatch)
    node = again(node, tmp_path)
    assert [one.pending for one in node.baselines.all()] == [("700",)]
    node.set_desired(desired(POD, SHARES, 300))
    node = again(node, tmp_path)
    assert [one.pending for one in node.baselines.all()] == [()]
    # What was in doubt once is a stranger's now.
    node.set(POD, SHARES, "700")
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.SKIPPED]


def test_what_is_found_after_a_restart_replaces_nothing(node: Node, tmp_path: Path) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node = again(node, tmp_path)
    node.set_desired(desired(POD, SHARES, 300))
    assert [(one.text, one.ours) for one in node.baselines.all()] == [("1024\n", "300\n")]


# ---- the database


def full(database: sqlite3.Connection) -> None:
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}")


def room(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA max_page_count = 1000000")


def read_only(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA query_only = ON")


def writable(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize(
    ("break_it", "mend_it", "words"),
    [(full, room, "full"), (read_only, writable, "readonly database")],
)
def test_a_database_that_takes_nothing_for_a_while(
    tmp_path: Path,
    break_it: Callable[[sqlite3.Connection], None],
    mend_it: Callable[[sqlite3.Connection], None],
    words: str,
) -> None:
    reported: list[str] = []
    baselines = BaselineStore(str(tmp_path / "o.db"), reported.append, boot="b")
    first = BaselineValue(Target("a", SHARES), 1, "1024\n", 5.0)
    baselines.remember([first])
    assert baselines._database is not None
    break_it(baselines._database)
    many = [BaselineValue(Target(f"g{number}", SHARES), 1, "x" * 4000, 5.0) for number in range(50)]
    for _ in range(3):
        baselines.remember(many, [(one.target, "1") for one in many])
        baselines.record_writes([(first.target, "512\n")])
    baselines.forget([many[0].target])
    assert len(reported) == 1
    assert words in reported[0]
    assert baselines.trouble == reported[0]
    mend_it(baselines._database)
    baselines.record_writes([(many[1].target, "512\n")])
    assert baselines.trouble == ""
    known = baselines.all()
    assert len(known) == 50
    baselines.close()
    reopened = BaselineStore(str(tmp_path / "o.db"), reported.append, boot="b")
    assert reopened.all() == known
    reopened.close()


def test_changes_go_on_without_a_database(node: Node) -> None:
    assert node.baselines._database is not None
    read_only(node.baselines._database)
    assert only(node.set_desired(desired(POD, SHARES, 512))).outcome is Outcome.WRITTEN
    assert only(node.set_desired(desired(POD, SHARES, 300))).outcome is Outcome.WRITTEN
    assert len(node.reported) == 1
    put_back(node)
    assert node.value(POD, SHARES) == "1024"


# ---- defects


@pytest.mark.parametrize("where", ["_look", "_decide"])
def test_a_defect_loses_no_wish(node: Node, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    node.set_desired(desired(BE, SHARES, 99))
    node.set(BE, SHARES, "7")
    node.now += 61
    with monkeypatch.context() as patched:
        patched.setattr(node.executor, where, lambda *_: 1 // 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                node.set_desired(desired(POD, SHARES, 512), owner=HOOKS, scope="other")
    node.executor.apply()
    node.later()
    assert [node.value(place, SHARES) for place in (POD, BE)] == ["512", "99"]


# ---- names that are used again


def make_anew(node: Node, value: str = "77") -> None:
    node.files.remove_group(POD)
    node.files.make_group(CONTAINER)
    node.files.write(node.path(POD, SHARES), value)


@pytest.mark.parametrize("first", [512, 1024])
def test_a_group_made_anew_is_no_strangers_work(node: Node, first: int) -> None:
    node.set_desired(desired(POD, SHARES, first))
    for _ in range(4):
        make_anew(node)
        result = only(node.later())
        assert (result.outcome, result.reason, result.alert) == (Outcome.WRITTEN, "", False)
    assert node.value(POD, SHARES) == str(first)
    put_back(node)
    assert node.value(POD, SHARES) == "77"


def test_a_group_that_was_seen_to_be_gone_in_between(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.files.remove_group(POD)
    assert only(node.later()).outcome is Outcome.GONE
    node.files.make_group(POD)
    result = only(node.later())
    assert (result.outcome, result.reason) == (Outcome.WRITTEN, "")


def test_a_group_made_anew_gets_the_wish_where_strangers_values_stay(make_node: MakeNode) -> None:
    node = make_node(policy=lambda *_: DriftPolicy.YIELD)
    node.set_desired(desired(CONTAINER, CPUS, "0-3"))
    node.set(CONTAINER, CPUS, "4-7")
    assert only(node.later()).outcome is Outcome.YIELDED
    make_anew(node)
    assert only(node.later()).outcome is Outcome.WRITTEN
    make_anew(node)
    assert only(node.later()).outcome is Outcome.WRITTEN


def test_a_new_group_that_is_as_wished_is_left_when_putting_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    make_anew(node, "512")
    assert only(node.later()).outcome is Outcome.UNCHANGED
    assert [one.outcome for one in put_back(node).values()] == [RestoreOutcome.GONE]
    assert node.value(POD, SHARES) == "512"


@pytest.mark.parametrize("moment", ["identity", "read"])
def test_no_old_value_for_a_group_made_anew_within_a_round(node: Node, moment: str) -> None:
    node.set(POD, SHARES, "99")
    real = getattr(node.files, moment)
    calls = []

    def with_a_change(path: str) -> object:
        if (POD in path and SHARES in path) or moment == "identity":
            calls.append(path)
            # "read": the first is the look, the second what is remembered.
            if len(calls) == (1 if moment == "identity" else 2):
                make_anew(node)
        return real(path)

    setattr(node.files, moment, with_a_change)
    node.set_desired(desired(POD, SHARES, 512))
    setattr(node.files, moment, real)
    put_back(node)
    assert node.value(POD, SHARES) in ("77", "512")


# ---- processes


@pytest.fixture
def processes() -> Iterator[tuple[FakeNode, Executor, BaselineStore, list[float]]]:
    files, baselines, now = FakeNode(1), BaselineStore("", print), [0.0]
    files.cgroups.make_group(CONTAINER)
    journal = Journal("", print)
    executor = Executor(
        files, LAYOUT_1, journal, baselines, clock=lambda: 0.0, monotonic=lambda: now[0]
    )
    yield files, executor, baselines, now
    baselines.close()


def listed(files: FakeNode, group: str = CONTAINER) -> Process:
    [process] = in_group(files, "/proc", group, LAYOUT_1.list_file(group))
    return process


def test_a_pid_that_is_used_again_is_somebody_else_s(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, executor, baselines, now = processes
    pid = files.start_process(CONTAINER, 0)
    target = Target(listed(files).place, SCORE)
    executor.set_desired(HOOKS, "tasks", (desired(target.place, SCORE, 900),))
    assert only(executor.apply()).new == 900
    files.reuse_pid(pid, CONTAINER, -5)
    now[0] = 61.0
    assert only(executor.apply()).outcome is Outcome.GONE
    assert files.read(f"/proc/{pid}/oom_score_adj") == "-5\n"
    files.plain.texts[f"/proc/{pid}/oom_score_adj"] = "900\n"
    report = restore(files, LAYOUT_1, baselines, Journal("", print), lambda: 0.0)
    assert [(one.target, one.outcome) for one in report] == [(target, RestoreOutcome.GONE)]
    assert files.read(f"/proc/{pid}/oom_score_adj") == "900\n"


def test_a_pid_that_is_used_again_between_look_and_write(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, executor, _, _ = processes
    pid = files.start_process(CONTAINER, 0)
    process = listed(files)
    executor.set_desired(HOOKS, "tasks", (desired(process.place, SCORE, 900),))
    real = files.held

    def held(path: str) -> object:
        files.reuse_pid(pid, CONTAINER, -5)
        return real(path)

    files.held = held  # type: ignore[method-assign]
    assert only(executor.apply()).outcome is Outcome.GONE
    assert files.read(f"/proc/{pid}/oom_score_adj") == "-5\n"


def test_a_process_that_has_left_its_group_is_left_but_for_what_was_found(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, executor, baselines, _ = processes
    other = "kubepods/podother"
    files.cgroups.make_group(other)
    pid = files.start_process(CONTAINER, 7)
    place = listed(files).place
    executor.set_desired(HOOKS, "tasks", (desired(place, SCORE, 900),))
    executor.apply()
    files.cgroups.add_process(other, pid)
    executor.set_desired(HOOKS, "tasks", (desired(place, SCORE, 500),))
    assert only(executor.apply()).outcome is Outcome.GONE
    assert files.read(f"/proc/{pid}/oom_score_adj") == "900\n"
    report = restore(files, LAYOUT_1, baselines, Journal("", print), lambda: 0.0)
    assert [one.outcome for one in report] == [RestoreOutcome.RESTORED]
    assert files.read(f"/proc/{pid}/oom_score_adj") == "7\n"


def test_a_number_without_a_start_time_is_never_written_to(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, executor, _, _ = processes
    pid = files.start_process(CONTAINER, 0)
    executor.set_desired(
        HOOKS, "tasks", (desired(str(pid), SCORE, 900), desired("self", SCORE, 900))
    )
    assert {one.outcome for one in executor.apply().results} == {Outcome.INVALID}
    assert files.read(f"/proc/{pid}/oom_score_adj") == "0\n"


def test_what_was_found_when_processes_were_known_by_number_is_put_back(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, executor, baselines, _ = processes
    pid, reused = (files.start_process(CONTAINER, 900) for _ in range(2))
    rows = [(Target(str(one), SCORE), one) for one in (pid, reused)]
    baselines.remember(BaselineValue(target, one, "3\n", 0.0, "900\n") for target, one in rows)
    files.reuse_pid(reused, CONTAINER, 900)
    of_first = Process(CONTAINER, pid, pid).place
    executor.set_desired(HOOKS, "tasks", (desired(of_first, SCORE, 500),))
    assert only(executor.apply()).outcome is Outcome.WRITTEN
    report = restore(files, LAYOUT_1, baselines, Journal("", print), lambda: 0.0)
    assert [(one.target.place, one.outcome) for one in report] == [
        (of_first, RestoreOutcome.RESTORED)
    ]
    assert files.read(f"/proc/{pid}/oom_score_adj") == "3\n"
    assert files.read(f"/proc/{reused}/oom_score_adj") == "900\n"


def test_a_row_that_has_only_a_number_is_put_back(
    processes: tuple[FakeNode, Executor, BaselineStore, list[float]],
) -> None:
    files, _, baselines, _ = processes
    pid = files.start_process(CONTAINER, 900)
    baselines.remember([BaselineValue(Target(str(pid), SCORE), pid, "3\n", 0.0, "900\n")])
    report = restore(files, LAYOUT_1, baselines, Journal("", print), lambda: 0.0)
    assert [one.outcome for one in report] == [RestoreOutcome.RESTORED]
    assert files.read(f"/proc/{pid}/oom_score_adj") == "3\n"


# ---- days


def test_a_wish_that_flaps_every_second_for_hours(node: Node) -> None:
    for second in range(4 * 3600):
        node.set_desired(desired(POD, SHARES, 500 + second % 2))
        node.later(1)
    assert len(node.baselines) == 1
    assert len(node.executor._states) == 1
    assert len(node.executor._states._due) <= 62
    assert node.value(POD, SHARES) == "501"


def test_pods_that_come_and_go_for_days_leave_nothing(node: Node) -> None:
    for number in range(1500):
        group = f"{BE}/pod9{number}"
        node.files.make_group(group)
        desired_values = (desired(group, SHARES, 512), desired(group, "cpu.idle", 7))
        node.executor.set_desired(HOOKS, f"pod {number}", desired_values)
        node.later(120)
        node.files.remove_group(group)
        node.executor.forget(HOOKS, f"pod {number}")
        node.later(120)
    executor = node.executor
    assert len(executor._states) == len(executor._states._due) == 0
    assert executor._invalid == executor._ledger._targets == executor._ledger._scopes == {}
    assert len(node.baselines) <= 4


def test_a_stranger_that_fights_for_days_is_counted_for_ten_minutes(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    for _ in range(1500):
        node.set(POD, SHARES, "7")
        node.later()
    [state] = node.executor._states.values()
    assert len(state.drift_counter.times) <= 10


def test_the_wall_clock_jumps(node: Node) -> None:
    wall = [1e9]
    monotonic = [0.0]
    executor = Executor(
        node.files,
        node.layout,
        node.journal,
        node.baselines,
        clock=lambda: wall[0],
        monotonic=lambda: monotonic[0],
    )
    executor.set_desired(HOOKS, "test", (desired(POD, SHARES, 512),))
    executor.apply()
    for jump in (-1e9, 5e9):
        wall[0] += jump
        monotonic[0] += 59
        assert executor.apply() is EMPTY
        monotonic[0] += 1
        assert only(executor.apply()).outcome is Outcome.UNCHANGED
    executor.set_desired(HOOKS, "test", (desired(POD, SHARES, 300),))
    assert only(executor.apply()).outcome is Outcome.WRITTEN
    assert [one.time[:4] for one in node.changes()] == ["2001", "2128"]


# ---- what JSON can hold and no file name can


@pytest.mark.parametrize("place", [f"{BE}/a\0b", f"{BE}/a\ud800b"])
def test_a_name_that_no_file_can_have_stops_nobody_else(node: Node, place: str) -> None:
    found = node.set_desired(desired(place, SHARES, 512), desired(POD, SHARES, 512))
    assert [one.outcome for one in found.results] == [Outcome.INVALID, Outcome.WRITTEN]
    assert "is not a valid file name" in found.results[0].reason


def test_a_text_that_cannot_be_written_stops_nobody_else(node: Node) -> None:
    found = node.set_desired(
        desired("/var/lib/x.json", "file", "\ud800"), desired(POD, SHARES, 512)
    )
    assert [one.outcome for one in found.results] == [Outcome.INVALID, Outcome.WRITTEN]
    assert "is not a valid text" in found.results[0].reason
