"""All strategies together, whatever the node: they agree, and leave nothing behind."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_hooks.runner import HookRunner, available_plugins, load
from koord_host.knobs.layout import Driver
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.restore import RestoreOutcome
from koord_model import cpuset
from koord_model.qos import QoSClass
from koordlet.agent.config import KoordletSettings
from koordlet.qos_manager.core.strategy import Plan, Strategy, StrategyView
from koordlet.qos_manager.strategy_table import select_enabled
from koordlet.qos_manager.suppression.be_cpus import own_cpus

from tests.support.examples import fewer
from tests.support.node.strategies import ALL_GATES, SETTLED, StrategyNode, StrategyRun, all_of
from tests.support.node.workload import a_pod, everything_on, measured, some_pods

CLASSES = tuple(QoSClass)
PLUGINS = load(sorted(available_plugins()))
MISSING = (
    "infos",
    "node_cpu_usage",
    "node_memory_usage",
    "pod_cpu_usage",
    "pod_memory_usage",
    "container_cpu_throttled",
    "pod_psi",
    "node_be",
    "node_numa_memory_free",
    "pod_memory_stat",
)
WHOLE = frozenset(range(16))


@dataclass(frozen=True)
class Case:
    """A node, and what happens on it: rounds, each with its load and what is not measured."""

    version: int = 2
    driver: Driver = Driver.SYSTEMD
    vendor: bool = False
    iocost: bool = True
    static: bool = False
    policy: str = "cpuset"
    identity: str = "groupIdentity"
    hooks: bool = True
    pods: tuple[QoSClass, ...] = (*CLASSES, QoSClass.BE, QoSClass.LS)
    rounds: tuple[tuple[float, frozenset[str]], ...] = (
        (0.5, frozenset()),
        (0.99, frozenset()),
        (0.05, frozenset({"pod_cpu_usage"})),
    )
    seed: int = 3
    restart_at: int = 2
    coming: tuple[QoSClass, ...] = (QoSClass.LSE, QoSClass.BE, QoSClass.LSE, QoSClass.LSR)

    @property
    def runner(self) -> HookRunner:
        return PLUGINS if self.hooks else HookRunner([])

    def node(self, directory: Path) -> StrategyNode:
        options = {"vendor": self.vendor, "iocost": self.iocost, "static": self.static}
        node = StrategyNode(directory, self.version, self.driver, **options)
        node.start(*some_pods(node.layout, *self.pods))
        return node


def _have_room(classes: list[QoSClass]) -> bool:
    """Whether the node has CPUs of their own for all that are to have such."""
    return all(classes.count(own) <= 4 for own in (QoSClass.LSE, QoSClass.LSR))


def cases(hooks: st.SearchStrategy[bool]) -> st.SearchStrategy[Case]:
    missing = st.frozensets(st.sampled_from(MISSING), max_size=2)
    loads = st.sampled_from([0.05, 0.5, 0.7, 0.99])
    classes = st.sampled_from(CLASSES)
    return st.builds(
        Case,
        version=st.sampled_from([1, 2]),
        driver=st.sampled_from(Driver),
        vendor=st.booleans(),
        iocost=st.booleans(),
        static=st.booleans(),
        policy=st.sampled_from(["cpuset", "cfsQuota"]),
        identity=st.sampled_from(["groupIdentity", "coreSched"]),
        hooks=hooks,
        pods=st.lists(classes, max_size=8).filter(_have_room).map(tuple),
        rounds=st.lists(st.tuples(loads, missing), min_size=2, max_size=8).map(tuple),
        seed=st.integers(0, 1 << 16),
        restart_at=st.integers(0, 8),
        coming=st.lists(classes, max_size=4).map(tuple),
    )


@contextmanager
def node_of(case: Case) -> Iterator[StrategyNode]:
    with tempfile.TemporaryDirectory(prefix="koord-test-", dir="/dev/shm") as directory:
        yield case.node(Path(directory))


def planning_twice(strategy: Strategy) -> Strategy:
    """Its second plan of a round is to be the first."""

    def plan(view: StrategyView, settings: Any, memory: Any) -> Plan:
        found, again = (strategy.plan(view, settings, memory) for _ in range(2))
        assert replace(again, memory=None) == replace(found, memory=None), strategy.name
        return found

    return replace(strategy, plan=plan)


STRATEGIES = [
    planning_twice(one) for one in select_enabled(asdict(KoordletSettings()), ALL_GATES)[0]
]


def rounds(node: StrategyNode, run: StrategyRun, case: Case, *numbers: int) -> None:
    for number in numbers:
        load, missing = case.rounds[number % len(case.rounds)]
        node.measured = measured(node.pods, load, case.seed + number // 2, missing, at=node.wall)
        run.round(1.0 if number % 3 else 5.0)
        agreed(node, run)


def agreed(node: StrategyNode, run: StrategyRun) -> None:
    """Nobody is in another's way, and the kernel takes whatever is written."""
    assert run.found is not None
    assert run.found.problems == ()
    assert [one for one in run.rounds.states() if one.failures or one.overruns] == []
    done = run.done[-1]
    assert done.defects == ()
    assert [str(one) for one in done.writes.conflicts if not one.settled] == []
    for outcome in (Outcome.INVALID, Outcome.REFUSED, Outcome.YIELDED, Outcome.UNSUPPORTED):
        assert list(all_of([done], outcome)) == []
    assert [one for one in node.files.refused if not foreseen(*one)] == []
    chosen_within_the_machine(node, run)
    node.files.cgroups.check()


def foreseen(path: str, text: str, code: int) -> bool:
    """Less than asked for was there to be reclaimed; or a group with tasks is to have no CPUs."""
    reclaimed = path.endswith("/memory.reclaim") and code == errno.EAGAIN
    return reclaimed or (not text.strip() and code == errno.ENOSPC)


def chosen_within_the_machine(node: StrategyNode, run: StrategyRun) -> None:
    if not node.measured.latest.infos or not run.wanted:
        # Which CPUs there are is not known: those that were desired stay.
        return
    owners = [pod.record.pod for pod in node.pods if pod.qos is QoSClass.LSE]
    lse = frozenset[int]().union(*map(own_cpus, owners))
    for one in run.wanted[-1].desired.get("cpu_suppress", ()):
        if one.target.knob == "cpuset.cpus":
            cpus = cpuset.parse(str(one.value))
            assert cpus, one
            assert cpus <= WHOLE - lse, one
            assert not node.cpus(one.target.place) & lse, one


def writes(node: StrategyNode) -> list[tuple[str, str]]:
    return [one for one in node.files.writes if not one[0].endswith("/memory.reclaim")]


FULL = Case()


@fewer(4)
@given(cases(st.booleans()))
@example(FULL)
@example(replace(FULL, version=1, vendor=True, static=True, policy="cfsQuota"))
def test_they_agree_with_each_other_and_with_the_kernel(case: Case) -> None:
    with node_of(case) as node:
        node.slo = everything_on(case.policy, case.identity)
        with node.run(case.runner, strategies=STRATEGIES) as run:
            rounds(node, run, case, *range(len(case.rounds)))
            for number, qos in enumerate(case.coming):
                if node.pods:
                    node.stop(node.pods[0])
                own = str(4 + number) if qos in (QoSClass.LSE, QoSClass.LSR) else ""
                node.start(a_pod(node.layout, f"new-{number}", qos, 1, own))
                rounds(node, run, case, number, number + 1)


@fewer(4)
@given(cases(st.booleans()))
@example(FULL)
def test_the_same_measurements_come_to_rest(case: Case) -> None:
    with node_of(case) as node:
        # A controller without a deadbeat: what it steers by does not follow it here.
        without = {"pressure_suppress": {"mode": "off"}}
        node.slo = everything_on(case.policy, case.identity, **without)
        node.measured = measured(node.pods, case.rounds[0][0], case.seed, case.rounds[0][1])
        with node.run(case.runner, strategies=STRATEGIES) as run:
            run.comes_to_rest()
            before = writes(node)
            run.rounds_of(*[30.0] * 5)
            assert writes(node) == before


@fewer(4)
@given(cases(st.just(False)))
@example(replace(FULL, hooks=False))
def test_switched_off_all_is_as_it_was_found(case: Case) -> None:
    """Also where koordlet was killed in between, and has forgotten what it thought."""
    with node_of(case) as node:
        found = node.values()
        node.slo = everything_on(case.policy, case.identity)
        numbers = range(len(case.rounds))
        with node.run(strategies=STRATEGIES) as run:
            rounds(node, run, case, *numbers[: case.restart_at])
        with node.run(strategies=STRATEGIES) as run:
            rounds(node, run, case, *numbers[case.restart_at :])
            node.slo = None
            run.round()
            run.rounds_of(SETTLED, 1.0, 61.0)
            agreed(node, run)
            assert node.values() == found
            assert run.executor._baselines.all() == []


@fewer(4)
@given(cases(st.just(True)))
@example(FULL)
def test_switched_off_all_is_as_hooks_alone_want_it(case: Case) -> None:
    with node_of(case) as node, tempfile.TemporaryDirectory() as elsewhere:
        hooks_alone = node.copied(Path(elsewhere) / "twin")
        slo = everything_on(case.policy, case.identity)
        node.slo = hooks_alone.slo = slo
        with hooks_alone.run(PLUGINS, strategies=()) as run:
            run.rounds_of(1.0, SETTLED)
        with node.run(PLUGINS, strategies=STRATEGIES) as run:
            rounds(node, run, case, *range(len(case.rounds)))
            node.slo = slo | off(run)
            run.round()
            run.rounds_of(SETTLED, 61.0)
            agreed(node, run)
        assert node.values() == hooks_alone.values()


def off(run: StrategyRun) -> dict[str, Any]:
    """Every strategy switched off by its mode; hooks find the NodeSLO as it was."""
    modes = {one.name: {"mode": "off"} for one in run.strategies}
    return {"extensions": {"pykoord": {"strategies": modes}}}


# ---- killed at any moment

KILLED = Case(
    version=1,
    driver=Driver.CGROUPFS,
    vendor=True,
    hooks=False,
    pods=(QoSClass.LSE, QoSClass.LS, QoSClass.BE),
    rounds=((0.6, frozenset()),),
    seed=7,
)
PLAIN = replace(KILLED, version=2, driver=Driver.SYSTEMD, vendor=False, policy="cfsQuota")
"""Between them all kinds of files are written, with as few groups as do."""


STRIDE = int(os.environ.get("KOORD_TEST_STRIDE", "10"))
"""Each test tries other moments; 3 tries each of them once, by hand, before a release."""
TESTS = 3


@dataclass
class Killed:
    """A node on which koordlet was killed at some write, and what should become of it."""

    moments: list[list[StrategyNode]]
    """Those of each test."""
    number: int
    """Of moments that there were."""
    found: dict[str, str]
    wanted: dict[str, str]


def lives(case: Case, directory: Path) -> Killed:
    """One life, with a copy of the node and of koordlet's disk before and after each write.

    Pods come and go in it, the load moves, and in the end strategies are switched off and on.
    """
    node = case.node(directory / "node")
    node.slo = everything_on(case.policy, case.identity, pressure_suppress={"mode": "off"})
    node.measured = measured(node.pods, case.rounds[0][0], case.seed)
    moments: dict[tuple[int, int], StrategyNode | None] = {}

    def dies() -> None:
        """Whoever dies here leaves what the copy has; nothing new is the same death again."""
        log = directory / "node" / "state" / "originals.db-wal"
        left = len(node.files.writes), log.stat().st_size
        if left not in moments:
            tried = len(moments) % STRIDE < TESTS
            moments[left] = node.copied(directory / str(len(moments))) if tried else None

    found = node.values()
    with node.run() as run:
        node.files.at_write = dies
        rounds_until_rest(run)
        node.slo, slo = None, node.slo
        run.round()
        rounds_until_rest(run)
        node.files.at_write = None
        node.slo = slo
        rounds_until_rest(run)
        wanted = node.values()
    copies = list(moments.values())
    for one in copies:
        if one:
            one.slo = slo
    return Killed([copies[test::STRIDE] for test in range(TESTS)], len(copies), found, wanted)


def rounds_until_rest(run: StrategyRun) -> None:
    run.rounds_of(1.0, 5.0, SETTLED, 61.0)


@pytest.fixture(scope="module", params=[KILLED, PLAIN], ids=["v1-vendor", "v2-mainline"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    found = lives(request.param, tmp_path_factory.mktemp("killed"))
    assert found.number > 100
    return found


def test_killed_and_started_again_all_is_as_without_the_kill(
    killed: Killed, tmp_path: Path
) -> None:
    for number, moment in enumerate(killed.moments[0]):
        node = moment.copied(tmp_path / str(number))
        with node.run() as run:
            rounds_until_rest(run)
        assert node.values() == killed.wanted, number


def test_killed_and_switched_off_all_is_as_it_was_found(killed: Killed, tmp_path: Path) -> None:
    for number, moment in enumerate(killed.moments[1]):
        node = moment.copied(tmp_path / str(number))
        node.slo = None
        with node.run() as run:
            rounds_until_rest(run)
            assert run.executor._baselines.all() == [], number
        assert node.values() == killed.found, number


def test_killed_and_restored_all_is_as_it_was_found(killed: Killed, tmp_path: Path) -> None:
    left = RestoreOutcome.SKIPPED, RestoreOutcome.REFUSED
    for number, moment in enumerate(killed.moments[2]):
        node = moment.copied(tmp_path / str(number))
        # Where the kernel takes no empty set again, they have all CPUs instead already.
        assert {one.old for one in node.restored() if one.outcome in left} <= {"0-15"}, number
        assert node.values() == killed.found, number
