"""All strategies over hours and days, in a fraction of the time: nothing grows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.runner import HookRunner, available_plugins, load
from koord_host.knobs.layout import Driver
from koord_host.planning.outcomes import Outcome
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import PodView

from tests.support.node.strategies import StrategyNode, StrategyRun, all_of
from tests.support.node.workload import a_pod, everything_on, measured

ROUNDS = int(os.environ.get("KOORD_TEST_ROUNDS", "300"))
"""10 000 are three hours of rounds; by hand, before a release."""
REMEMBERED = 150
EVERY = (QoSClass.LS, QoSClass.BE, QoSClass.NONE, QoSClass.LSR, QoSClass.BE)


def passing(node: StrategyNode, number: int) -> PodView:
    """A pod that was not there before."""
    qos = EVERY[number % len(EVERY)]
    own = f"{8 + number % 4}" if qos is QoSClass.LSR else ""
    return a_pod(node.layout, f"p{number:06}", qos, 1 + number % 2, own)


def sizes(run: StrategyRun) -> dict[str, int]:
    """How many things each part keeps, in whatever it keeps them."""
    parts: list[Any] = [
        run.rounds,
        run.decisions,
        run.decider,
        run.evictor,
        run.views,
        run.executor,
    ]
    parts += [run.node.plan_queue, run.node.reconcile_loop]
    return {str(type(part)): sum(len(one) for one in _kept(part, set())) for part in parts}


_OURS = ("koord_host", "koordlet", "koord_hooks", "koord_model")


def _kept(part: Any, seen: set[int]) -> Iterator[Any]:
    """Every container that can be reached from one of our objects by others of ours."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, dict | list | tuple | set | frozenset | deque):
        yield part
        inside = [*part.keys(), *part.values()] if isinstance(part, dict) else list(part)
    elif type(part).__module__.startswith(_OURS):
        names = [*getattr(part, "__dict__", ())]
        names += [slot for kind in type(part).__mro__ for slot in getattr(kind, "__slots__", ())]
        inside = [getattr(part, name, None) for name in names]
    else:
        return
    for one in inside:
        yield from _kept(one, seen)


@pytest.mark.parametrize(
    ("version", "driver", "hooks"),
    [(1, Driver.CGROUPFS, "all"), (2, Driver.SYSTEMD, "")],
    ids=["v1 with hooks", "v2"],
)
def test_pods_that_come_and_go_leave_nothing(
    tmp_path: Path, version: int, driver: Driver, hooks: str
) -> None:
    node = StrategyNode(tmp_path, version, driver)
    node.start(*(passing(node, number) for number in range(5)))
    node.slo = everything_on()
    begun: dict[str, int] = {}
    runner = load(sorted(available_plugins())) if hooks else HookRunner([])
    with node.run(runner, remembers=REMEMBERED) as run:
        for number in range(5, ROUNDS):
            if number % 5 == 0:
                node.stop(node.pods[0])
                node.start(passing(node, number // 5 + 4))
            use = (0.3, 0.7, 0.95)[number // 50 % 3]
            node.measured = measured(node.pods, use, number // 7, at=node.wall)
            run.round()
            run.done[:-1] = run.wanted[:-1] = []
            assert run.found is not None
            assert run.found.problems == ()
            for outcome in (Outcome.INVALID, Outcome.REFUSED, Outcome.UNSUPPORTED):
                assert list(all_of(run.done, outcome)) == []
            if number == ROUNDS * 2 // 3:
                begun = sizes(run)
        # Until what is looked at seldom has been, and baselines were pruned.
        run.rounds_of(*[61.0] * 11)
        ended = sizes(run)
        assert {name: size for name, size in ended.items() if size > begun[name] * 1.2 + 50} == {}
        there = tuple(pod.group for pod in node.pods)
        for target in (*run.executor._states, *run.executor._ledger._targets):
            assert "podp0" not in target.place or target.place.startswith(there), target
        for original in run.executor._baselines.all():
            place = original.target.place
            assert "podp0" not in place or place.startswith(there), original
        assert len(run.decisions.find(lambda _: True).history) <= REMEMBERED
        if hooks:
            # Their desired values stay.
            return
        node.slo = None
        run.rounds_of(1.0, 1.0, 61.0)
        assert len(run.executor._baselines) == len(run.executor._states) == 0
        assert run.executor._ledger._targets == {}
