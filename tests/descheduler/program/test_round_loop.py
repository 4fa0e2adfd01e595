"""Rounds are planned one after the other, and their moves carried out in order."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pytest
from koord_descheduler.framework.round import DeschedulerProfile, ProfileRound, RoundSettings
from koord_descheduler.planner.budgets import MoveLimit, MovePace, of_all
from koord_descheduler.planner.move import DesiredAnnotations, Move, RoundPlan
from koord_descheduler.planner.move_memory import PastMove
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.round_loop import RoundLoop
from koord_descheduler.program.round_planner import RoundPlanner
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import ApiError, NotLeadingError

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.descheduler.framework.test_round import Emptying

REFUSED = EvictionOutcome(EvictionResult.REFUSED, "a budget forbids it")


class Executor:
    """Carries out nothing; ``outcomes`` by pod."""

    keeps_track = False

    def __init__(self, **outcomes: EvictionOutcome | ApiError) -> None:
        self.outcomes = outcomes
        self.moved: list[str] = []

    async def execute(self, move: Move) -> EvictionOutcome:
        self.moved.append(move.pod.name)
        outcome = self.outcomes.get(move.pod.name, EvictionOutcome(EvictionResult.EVICTED))
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome


class Observer:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.plans: list[RoundPlan] = []
        self.reasons: list[str] = []
        self.results: list[tuple[str, str]] = []

    def planned(self, plan: RoundPlan, seconds: float) -> None:
        self.plans.append(plan)

    def not_planned(self, reason: str) -> None:
        self.reasons.append(reason)

    def executed(self, move: Move, outcome: EvictionOutcome) -> None:
        self.results.append((move.pod.name, outcome.end.value))


@pytest.fixture
def cluster() -> TestCluster:
    found = TestCluster()
    found.put(node("a", unschedulable=True), node("b", cpu="4"))
    found.put(*(pod(f"p{number}", "a", cpu="2", owner=f"o{number}") for number in range(3)))
    return found


def planner(
    cluster: TestCluster,
    limits: Iterable[MoveLimit] = (),
    pace: TokenBucket | None = None,
    memory: float = 100.0,
) -> RoundPlanner:
    plugins = (Emptying(),)
    profile = DeschedulerProfile("test", plugins, plugins)
    settings = RoundSettings(0.0, memory)
    return RoundPlanner(cluster.cluster, [profile], tuple(limits), settings, pace)


def loop(planned: RoundPlanner, observer: Observer, **more: object) -> RoundLoop:
    given = {"interval": 0.0, "silence": str, "wall": lambda: NOW} | more
    return RoundLoop(planned, RoundHistory(), observer, **given)  # type: ignore[arg-type]


async def not_annotated(_desired: DesiredAnnotations) -> None:
    raise AssertionError


class Annotating(DeschedulerPlugin):
    """Asks for an annotation of each pod of node a."""

    name = "Annotating"

    def __init__(self) -> None:
        pass

    def balance(self, cluster: ProfileRound) -> None:
        for one in cluster.pods_on("a"):
            cluster.annotate(one.view, {"key": "value"})


@pytest.mark.parametrize(("dry_run", "number"), [(False, 3), (True, 0)])
async def test_annotations_are_written(cluster: TestCluster, dry_run: bool, number: int) -> None:
    profile = DeschedulerProfile("test", (), (Annotating(),))
    planned = RoundPlanner(cluster.cluster, [profile], (), RoundSettings())
    written: list[DesiredAnnotations] = []

    async def annotate(desired: DesiredAnnotations) -> None:
        written.append(desired)

    await loop(planned, Observer(), dry_run=dry_run).run({}, annotate)
    assert [one.values for one in written] == [{"key": "value"}] * number


async def test_moves_are_carried_out_in_order(cluster: TestCluster) -> None:
    observer, executor = Observer(), Executor(p0=REFUSED)
    await loop(planner(cluster), observer).run({"test": executor}, not_annotated)
    assert executor.moved == ["p0", "p1"]
    assert observer.results == [("p0", "refused"), ("p1", "evicted")]
    assert [(one.pod.name, one.rule) for one in observer.plans[0].refusals] == [("p2", "Fit")]


async def test_a_failed_move_is_tried_again_and_a_begun_one_counts(cluster: TestCluster) -> None:
    observer, planned = Observer(), planner(cluster)
    await loop(planned, observer).run({"test": Executor(p0=ApiError("no answer"))}, not_annotated)
    await loop(planned, observer).run({"test": Executor()}, not_annotated)
    assert observer.results == [("p0", "failed"), ("p1", "evicted"), ("p0", "evicted")]
    # p1 is still there: it counts where it goes, and nobody moves it twice.
    assert {one.pod.name: one.rule for one in observer.plans[1].refusals} == {"p2": "Fit"}


async def test_a_dry_run_deducts_what_it_shows(cluster: TestCluster) -> None:
    observer, planned, executor = Observer(), planner(cluster), Executor()
    limits = [MoveLimit("maxNoOfPodsToEvictTotal", 1, of_all)]
    planned = planner(cluster, limits)
    for _ in range(3):
        await loop(planned, observer, dry_run=True).run({"test": executor}, not_annotated)
    assert executor.moved == []
    assert [name for name, _ in observer.results] == ["p0", "p1"]
    assert [len(plan.moves) for plan in observer.plans] == [1, 1, 0]


def test_a_limit_holds_at_its_times(cluster: TestCluster) -> None:
    planned = planner(cluster, [MoveLimit("night", 0, of_all, lambda now: now > NOW)])
    assert len(planned.plan(NOW).moves) == 2
    plan = planned.plan(NOW + 1)
    assert not plan.moves
    assert plan.refusals[0].why == "night is 0, reached for all"


def test_turns_come_together_between_rounds(cluster: TestCluster) -> None:
    pace = MovePace(qps=0.02).bucket(interval=60.0)
    planned = planner(cluster, [MoveLimit("night", 0, of_all, lambda now: now < NOW + 300)], pace)
    planned.start(NOW)
    assert planned.plan(NOW + 300).refusals[0].why == (
        "the number of turns by evictQPS 0.02 is 1, reached for all"
    )  # what came together in the night is no more than the turns of one round
    [first] = planned.plan(NOW + 300).moves
    planned.begin(first, NOW + 300)
    assert planned.plan(NOW + 349).moves == ()
    assert len(planned.plan(NOW + 351).moves) == 1
    planned.start(NOW + 351)  # another replica may have spent it
    assert planned.plan(NOW + 351).moves == ()


def test_moves_that_others_keep_track_of_are_theirs_soon(cluster: TestCluster) -> None:
    planned = planner(cluster)
    first, *_ = planned.plan(NOW).moves
    planned.begin(first, NOW, is_tracked=True)
    assert [move.pod.name for move in planned.plan(NOW + 9).moves] == ["p1"]
    assert [move.pod.name for move in planned.plan(NOW + 11, [first]).moves] == ["p1"]
    assert len(planned.plan(NOW + 11).moves) == 2


def test_moves_that_never_end_are_forgotten(cluster: TestCluster) -> None:
    planned = planner(cluster, memory=100.0)
    for move in planned.plan(NOW).moves:
        planned.begin(move, NOW)
    assert planned.plan(NOW + 99).moves == ()
    assert len(planned.plan(NOW + 101).moves) == 2


async def test_the_rest_of_a_group_stays_if_one_pod_does(cluster: TestCluster) -> None:
    observer, executor = Observer(), Executor(p0=REFUSED)
    made = planner(cluster)
    plan = made.plan(NOW)
    plan = plan._replace(moves=tuple(move._replace(group="g") for move in plan.moves))
    made.plan = lambda now, jobs=(): plan  # type: ignore[method-assign]
    history = RoundHistory()
    rounds = RoundLoop(made, history, observer, interval=0.0, silence=str, wall=lambda: NOW)
    await rounds.run({"test": executor}, not_annotated)
    assert executor.moved == ["p0"]
    assert history.why("default/p1")["moved"]["why"] == "default/p0 of its group cannot move"


@pytest.mark.parametrize(
    ("silence", "reason"),
    [("pods: not followed for 31 s", "pods: not followed for 31 s"), ("", "1 nodes are ready")],
)
async def test_no_round_in_the_dark(cluster: TestCluster, silence: str, reason: str) -> None:
    cluster.remove("Node", "b")
    observer = Observer()
    await loop(planner(cluster), observer, silence=lambda: silence).run(
        {"test": Executor()}, not_annotated
    )
    assert observer.reasons[0].startswith(reason)
    assert observer.plans == []


async def test_a_trigger_starts_a_round_early(cluster: TestCluster) -> None:
    observer = Observer()
    rounds = loop(planner(cluster), observer, interval=3600.0, settle=0.0)
    async with anyio.create_task_group() as group:
        group.start_soon(rounds.run, {"test": Executor()}, not_annotated)
        with anyio.fail_after(5):
            while len(observer.plans) < 2:
                rounds.trigger()
                await anyio.sleep(0)
        group.cancel_scope.cancel()


async def test_moves_of_another_life_are_remembered(cluster: TestCluster) -> None:
    observer = Observer()
    cluster.put(node("a"), node("b", unschedulable=True), pod("p0", "b", cpu="1", owner="o0"))
    made = RoundPlanner(
        cluster.cluster,
        [DeschedulerProfile("test", (), (Emptying("b"),))],
        (),
        RoundSettings(0.0, 100.0),
    )
    past = [PastMove(NOW - 50, "uid-of-o0", "a"), PastMove(NOW - 50, "uid-of-o0", "a")]
    await loop(made, observer, past=lambda: past).run({"test": Executor()}, not_annotated)
    assert observer.plans[0].refusals[0].why == "a: a pod of its owner left it 50 s ago"


async def test_a_write_that_comes_too_late_ends_no_loop(cluster: TestCluster) -> None:
    observer, executor = Observer(), Executor(p0=NotLeadingError("not leading"))
    await loop(planner(cluster), observer).run({"test": executor}, not_annotated)
    assert observer.results[0] == ("p0", "failed")
