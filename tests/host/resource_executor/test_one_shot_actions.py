import errno
from collections.abc import Callable

import pytest
from koord_host.planning.jobs import InlineJobs, JobEnd
from koord_host.planning.outcomes import Outcome, Result
from koord_host.resource_executor.one_shot_actions import (
    NO_MORE,
    PIECE_BYTES,
    SECONDS,
    OneShotActions,
)

from tests.host.conftest import HOOKS, STRATEGY, MakeNode, Node, desired, only
from tests.support.held_jobs import HeldJobs

BE = "kubepods/besteffort"
POD = f"{BE}/pod1"
RECLAIM, LIMIT = "memory.reclaim", "memory.limit_in_bytes"


def do(node: Node, value: int, place: str = POD, knob: str = RECLAIM) -> Result:
    node.executor.run_once(STRATEGY, (desired(place, knob, value, "pages nobody misses"),))
    return only(node.executor.apply())


def test_done_once_and_journalled(node2: Node) -> None:
    node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
    result = do(node2, 1 << 20)
    assert (result.outcome, result.owner, result.alert) == (Outcome.WRITTEN, "cpusuppress", False)
    assert node2.value(POD, "memory.limit_in_bytes") == "max"
    assert node2.files.read(f"{node2.files.directory(POD)}/memory.current").strip() == str(7 << 20)
    [change] = node2.changes()
    assert (change.owner, change.group, change.knob) == ("cpusuppress", POD, RECLAIM)
    assert (change.old, change.new, change.pod) == (None, 1 << 20, "ns/pod")
    assert change.why == "pages nobody misses"
    assert node2.executor.apply().results == ()
    assert node2.later().results == ()
    assert len(node2.baselines) == 0


def memory(node: Node) -> int:
    return int(node.files.read(f"{node.files.directory(POD)}/memory.current"))


class TestAsAJob:
    """Where jobs are not done at once."""

    @pytest.fixture
    def jobs(self, node2: Node) -> HeldJobs:
        jobs = HeldJobs(lambda: node2.now)
        node2.executor = node2.make_executor(jobs=jobs)
        return jobs

    def ask(self, node: Node, *values: int, place: str = POD) -> None:
        for value in values:
            node.executor.run_once(
                STRATEGY, (desired(place, RECLAIM, value, "pages nobody misses"),)
            )

    def stop(self, node: Node, after: int, how: Callable[[], None]) -> None:
        """Something happens after so many writes."""
        write, count = node.files.write, 0

        def counted(path: str, text: str) -> None:
            nonlocal count
            write(path, text)
            count += 1
            if count == after:
                how()

        node.files.write = counted  # type: ignore[method-assign]

    def test_no_round_waits_for_it_and_its_result_comes_with_a_later_one(
        self, node2: Node, jobs: HeldJobs
    ) -> None:
        node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
        self.ask(node2, 1 << 20)
        assert only(node2.set_desired(desired(POD, "cpu.shares", 512))).outcome is Outcome.WRITTEN
        assert memory(node2) == 8 << 20
        [waiting] = jobs.states()
        assert waiting.key == (RECLAIM, POD, "cpusuppress")
        jobs.run()
        assert memory(node2) == 7 << 20
        assert only(node2.executor.apply()).new == 1 << 20
        assert node2.executor.apply().results == ()

    def test_no_round_waits_for_memory_that_is_in_the_way_of_a_limit(
        self, node2: Node, jobs: HeldJobs
    ) -> None:
        node2.files.set_usage(POD, 3 << 30, reclaimable=3 << 30)
        limit, shares = desired(POD, LIMIT, 1 << 30), desired(POD, "cpu.shares", 512)
        found = {one.target.knob: one for one in node2.set_desired(limit, shares).results}
        assert found["cpu.shares"].outcome is Outcome.WRITTEN
        assert "are to be freed first" in found[LIMIT].reason
        assert memory(node2) == 3 << 30
        jobs.run()
        assert memory(node2) == 1 << 30
        done = {one.target.knob: one.outcome for one in node2.later(1).results}
        assert done == {RECLAIM: Outcome.WRITTEN, LIMIT: Outcome.WRITTEN}
        assert node2.value(POD, LIMIT) == str(1 << 30)

    @pytest.mark.parametrize("late", [False, True])
    def test_what_waits_is_done_once_with_its_newest_value_unless_it_is_late(
        self, node2: Node, jobs: HeldJobs, late: bool
    ) -> None:
        node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
        self.ask(node2, 1 << 20, 2 << 20)
        node2.now += SECONDS + late
        jobs.run()
        assert [one.new for one in node2.executor.apply().results] == [] if late else [2 << 20]
        assert memory(node2) == (8 if late else 6) << 20
        assert jobs.ended().get((RECLAIM, JobEnd.EXPIRED), 0) == late

    @pytest.mark.parametrize("how", ["cancelled", "deadline"])
    def test_it_stops_between_two_pieces_and_the_journal_has_what_was_freed(
        self, node2: Node, jobs: HeldJobs, how: str
    ) -> None:
        asked = 8 * PIECE_BYTES
        node2.files.set_usage(POD, 2 * asked, reclaimable=asked)
        self.ask(node2, asked)

        def late() -> None:
            node2.now += SECONDS

        self.stop(node2, 3, jobs.cancel if how == "cancelled" else late)
        jobs.run()
        freed = 3 * PIECE_BYTES
        assert memory(node2) == 2 * asked - freed
        [change] = node2.changes()
        cause = "it was cancelled" if how == "cancelled" else "it took longer than 30 s"
        assert (change.old, change.new) == (None, freed)
        assert change.why == f"pages nobody misses; {freed} of {asked} bytes: {cause}"
        result = only(node2.executor.apply())
        assert (result.outcome, result.new, result.alert) == (Outcome.WRITTEN, freed, False)
        assert jobs.ended() == {(RECLAIM, JobEnd(how)): 1}

    def test_a_group_that_ends_between_two_pieces_keeps_what_was_freed_in_the_journal(
        self, node2: Node, jobs: HeldJobs
    ) -> None:
        node2.files.set_usage(POD, 8 * PIECE_BYTES, reclaimable=8 * PIECE_BYTES)
        self.ask(node2, 4 * PIECE_BYTES)
        self.stop(node2, 1, lambda: node2.files.remove_group(POD))
        jobs.run()
        [change] = node2.changes()
        assert change.new == PIECE_BYTES
        assert only(node2.executor.apply()).outcome is Outcome.WRITTEN


@pytest.mark.parametrize(
    ("asked", "reclaimable"),
    [(2 << 20, 1 << 20), (3 * PIECE_BYTES, PIECE_BYTES + 4096), (PIECE_BYTES, 0)],
)
def test_less_than_asked_for_is_no_problem(node2: Node, asked: int, reclaimable: int) -> None:
    node2.files.set_usage(POD, 4 * PIECE_BYTES, reclaimable=reclaimable)
    result = do(node2, asked)
    assert (result.outcome, result.errno, result.alert) == (Outcome.WRITTEN, errno.EAGAIN, False)
    assert result.reason == f"{reclaimable} of {asked} bytes: {NO_MORE}"
    [change] = node2.changes()
    assert change.new == 4 * PIECE_BYTES - memory(node2) == reclaimable
    assert change.why == f"pages nobody misses; {result.reason}"


def test_not_on_v1_nor_in_a_group_that_is_gone(node: Node, node2: Node) -> None:
    result = do(node, 1 << 20)
    assert result.outcome is Outcome.UNSUPPORTED
    assert result.reason == "this kernel has no memory.reclaim"
    assert do(node, 1 << 20).news is False
    result = do(node2, 4096, f"{BE}/pod9")
    assert (result.outcome, result.news) == (Outcome.GONE, False)


def test_a_kernel_without_the_file(node2: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: str, _: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(node2.files, "write", write)
    assert do(node2, 4096).outcome is Outcome.UNSUPPORTED


def test_refused_is_reported_once_and_not_tried_again(node2: Node) -> None:
    node2.files.refusals[f"{node2.files.directory(POD)}/{RECLAIM}"] = errno.EINVAL
    result = do(node2, 4096)
    assert (result.outcome, result.errno, result.news) == (Outcome.REFUSED, errno.EINVAL, True)
    assert do(node2, 8192).news is False
    node2.files.refusals.clear()
    assert node2.later().results == ()
    assert do(node2, 4096).outcome is Outcome.WRITTEN


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        (RECLAIM, 0, "0 is out of range"),
        ("cpu.shares", 5, "cpu.shares is a state, not to be done once"),
        ("cpu.sheep", 5, "is not a knob"),
    ],
)
def test_what_is_no_action(node2: Node, knob: str, value: int, words: str) -> None:
    result = do(node2, value, knob=knob)
    assert (result.outcome, result.alert) == (Outcome.INVALID, True)
    assert words in result.reason
    assert node2.files.writes == []


def test_problems_of_groups_that_went_are_forgotten_in_time(make_node: MakeNode) -> None:
    node = make_node(1)
    jobs = InlineJobs(lambda: 0.0)
    actions = OneShotActions(node.files, node.layout, node.journal, lambda: 0.0, jobs)
    for number in range(5000):
        actions.put(HOOKS, desired(f"{BE}/pod9{number}", RECLAIM, 4096))
    assert len(actions.take_results()) == 5000
    assert not actions
    assert len(actions._reported) < 5000
