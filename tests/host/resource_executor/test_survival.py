"""What happens at three in the morning: kills, full disks, names that are used again, days."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from koord_host.kernel_files.processes import Process, in_group
from koord_host.knobs.table import DriftPolicy
from koord_host.planning.desired_values import Owner, Target
from koord_host.planning.outcomes import EMPTY, Outcome
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, restore

from tests.host.conftest import HOOKS, STRATEGY, V1, MakeNode, Node, desired, make_executor, only
from tests.support.node import FakeKernel

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
SHARES = "cpu.shares"

SCORE = "oom_score_adj"


class KilledError(BaseException):
    """Nothing of the program runs after this."""


def kill(*_: object) -> None:
    raise KilledError


# ---- kills


def killed(
    node: Node, where: str, value: int, monkeypatch: pytest.MonkeyPatch, owner: Owner = HOOKS
) -> Node:
    """Die in the round that writes this value: before its write, or before it is noted."""
    with monkeypatch.context() as patched:
        if where == "before the write":
            patched.setattr(node.files, "write", kill)
        else:
            patched.setattr(node.baselines, "record_writes", kill)
        with pytest.raises(KilledError):
            node.set_desired(desired(POD, SHARES, value), owner=owner)
    return node.again()


@pytest.mark.parametrize("first", [(), (512,), (512, 300)])
@pytest.mark.parametrize("where", ["before the write", "after the write"])
@pytest.mark.parametrize("then", ["rolled back", "restored", "restored after another run"])
def test_what_a_killed_round_may_have_written_is_put_back(
    node: Node, monkeypatch: pytest.MonkeyPatch, first: tuple[int, ...], where: str, then: str
) -> None:
    for value in first:
        node.set_desired(desired(POD, SHARES, value))
    node = killed(node, where, 700, monkeypatch, STRATEGY if then == "rolled back" else HOOKS)
    if then == "rolled back":
        node.executor.roll_back_undesired()
        node.executor.apply()
        assert node.nothing_is_left()
    else:
        if then != "restored":
            # Other writes go on, and the pod's may be as desired already.
            node.set_desired(desired(POD, SHARES, 700), desired(BE, SHARES, 99))
            node = node.again()
        node.restore()
    assert [node.value(place, SHARES) for place in (POD, BE)] == ["1024"] * 2


def test_killed_while_rolling_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    with monkeypatch.context() as patched:
        patched.setattr(node.baselines, "forget", kill)
        with pytest.raises(KilledError):
            node.let_go()
    node = node.again()
    node.executor.roll_back_undesired()
    assert only(node.executor.apply()).outcome is Outcome.UNCHANGED
    assert node.nothing_is_left()


@pytest.mark.parametrize("where", ["before the write", "after the write"])
def test_what_others_set_after_a_kill_stays(
    node: Node, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node = killed(node, where, 700, monkeypatch)
    node.set(POD, SHARES, "7")
    assert [one.outcome for one in node.restore().values()] == [RestoreOutcome.SKIPPED]
    assert node.value(POD, SHARES) == "7"


def test_doubts_end_with_the_next_write(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node = killed(node, "after the write", 700, monkeypatch)
    assert [one.pending for one in node.baselines.all()] == [("700",)]
    node.set_desired(desired(POD, SHARES, 300))
    node = node.again()
    assert [(one.text, one.pending) for one in node.baselines.all()] == [("1024\n", ())]
    # What was in doubt once is drift now.
    node.set(POD, SHARES, "700")
    assert [one.outcome for one in node.restore().values()] == [RestoreOutcome.SKIPPED]


# ---- the database


def test_changes_go_on_without_a_database(node: Node) -> None:
    database = node.baselines._state._database
    assert database is not None
    database.execute("PRAGMA query_only = ON")
    assert only(node.set_desired(desired(POD, SHARES, 512))).outcome is Outcome.WRITTEN
    assert only(node.set_desired(desired(POD, SHARES, 300))).outcome is Outcome.WRITTEN
    assert "readonly" in node.baselines.problem
    node.restore()
    assert node.value(POD, SHARES) == "1024"


# ---- defects


@pytest.mark.parametrize("where", ["_check", "_decide"])
def test_a_defect_loses_no_value(node: Node, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
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
@pytest.mark.parametrize("policy", [DriftPolicy.HOLD, DriftPolicy.YIELD])
def test_a_group_made_anew_is_no_drift(
    make_node: MakeNode, first: int, policy: DriftPolicy
) -> None:
    node = make_node(policy=lambda *_: policy)
    node.set_desired(desired(POD, SHARES, first))
    for _ in range(4):
        make_anew(node)
        result = only(node.later())
        assert (result.outcome, result.reason, result.alert) == (Outcome.WRITTEN, "", False)
    assert node.value(POD, SHARES) == str(first)
    node.files.remove_group(POD)
    assert only(node.later()).outcome is Outcome.GONE
    make_anew(node)
    assert only(node.later()).reason == ""
    node.restore()
    assert node.value(POD, SHARES) == "77"


def test_a_group_made_anew_gets_ours_where_drift_was_left(make_node: MakeNode) -> None:
    node = make_node(policy=lambda *_: DriftPolicy.YIELD)
    node.set_desired(desired(POD, SHARES, 512))
    node.set(POD, SHARES, "7")
    assert only(node.later()).outcome is Outcome.YIELDED
    make_anew(node)
    assert only(node.later()).outcome is Outcome.WRITTEN


def test_a_new_group_that_is_as_desired_is_left_when_putting_back(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    make_anew(node, "512")
    assert only(node.later()).outcome is Outcome.UNCHANGED
    assert [one.outcome for one in node.restore().values()] == [RestoreOutcome.GONE]
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
    node.restore()
    assert node.value(POD, SHARES) in ("77", "512")


# ---- processes


class Processes:
    """A container's processes, and an executor for their OOM scores."""

    def __init__(self) -> None:
        self.files, self.baselines, self.now = FakeKernel(1), BaselineStore(""), 0.0
        self.files.cgroups.make_group(CONTAINER)
        self.executor = make_executor(
            self.files, baselines=self.baselines, monotonic=lambda: self.now
        )

    def start(self, score: int) -> int:
        return self.files.start_process(CONTAINER, score)

    def score(self, pid: int) -> int:
        return int(self.files.read(f"/proc/{pid}/oom_score_adj"))

    def place(self) -> str:
        [process] = in_group(self.files, "/proc", CONTAINER, V1.list_file(CONTAINER))
        return process.place

    def set(self, *places: str, score: int = 900) -> list[Outcome]:
        desired_values = tuple(desired(place, SCORE, score) for place in places)
        self.executor.set_desired(HOOKS, "tasks", desired_values)
        return [one.outcome for one in self.executor.apply().results]

    def restore(self) -> list[tuple[str, RestoreOutcome]]:
        report = restore(self.files, V1, self.baselines, Journal("", print), lambda: 0.0)
        return [(one.target.place, one.outcome) for one in report]


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.baselines.close()


def test_a_pid_that_is_used_again_is_somebody_else_s(processes: Processes) -> None:
    pid = processes.start(0)
    place = processes.place()
    assert processes.set(place) == [Outcome.WRITTEN]
    assert processes.score(pid) == 900
    processes.files.reuse_pid(pid, CONTAINER, -5)
    processes.now = 61.0
    assert only(processes.executor.apply()).outcome is Outcome.GONE
    assert processes.score(pid) == -5
    processes.files.plain.texts[f"/proc/{pid}/oom_score_adj"] = "900\n"
    assert processes.restore() == [(place, RestoreOutcome.GONE)]
    assert processes.score(pid) == 900


def test_a_pid_that_is_used_again_between_look_and_write(processes: Processes) -> None:
    pid, files = processes.start(0), processes.files
    place, real = processes.place(), files.held

    def held(path: str) -> object:
        files.reuse_pid(pid, CONTAINER, -5)
        return real(path)

    files.held = held  # type: ignore[method-assign]
    assert processes.set(place) == [Outcome.GONE]
    assert processes.score(pid) == -5


def test_a_process_that_has_left_its_group_is_left_but_for_what_was_found(
    processes: Processes,
) -> None:
    processes.files.cgroups.make_group("kubepods/podother")
    pid = processes.start(7)
    place = processes.place()
    processes.set(place)
    processes.files.cgroups.add_process("kubepods/podother", pid)
    assert processes.set(place, score=500) == [Outcome.GONE]
    assert processes.score(pid) == 900
    assert processes.restore() == [(place, RestoreOutcome.RESTORED)]
    assert processes.score(pid) == 7


def test_a_number_without_a_start_time_is_never_written_to(processes: Processes) -> None:
    pid = processes.start(0)
    assert processes.set(str(pid), "self") == [Outcome.INVALID] * 2
    assert processes.score(pid) == 0


def test_what_was_found_when_processes_were_known_by_number_is_put_back(
    processes: Processes,
) -> None:
    pids = pid, reused, untouched = [processes.start(900) for _ in range(3)]
    rows = [(Target(str(one), SCORE), one) for one in pids]
    processes.baselines.remember(
        BaselineValue(target, one, "3\n", 0.0, "900\n") for target, one in rows
    )
    processes.files.reuse_pid(reused, CONTAINER, 900)
    of_first = Process(CONTAINER, pid, pid).place
    assert processes.set(of_first, score=500) == [Outcome.WRITTEN]
    restored = [(str(untouched), RestoreOutcome.RESTORED), (of_first, RestoreOutcome.RESTORED)]
    assert processes.restore() == restored
    assert [processes.score(one) for one in pids] == [3, 900, 3]


# ---- days


def test_a_value_that_flaps_every_second_for_an_hour(node: Node) -> None:
    for second in range(3600):
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


def test_drift_for_days_is_counted_for_ten_minutes(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    for _ in range(1500):
        node.set(POD, SHARES, "7")
        node.later()
    [state] = node.executor._states.values()
    assert len(state.drift_counter.times) <= 10


def test_the_wall_clock_jumps(node: Node) -> None:
    wall = [1e9]
    monotonic = [0.0]
    executor = make_executor(
        node.files, node.layout, node.journal, node.baselines,
        clock=lambda: wall[0], monotonic=lambda: monotonic[0],
    )  # fmt: skip
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
