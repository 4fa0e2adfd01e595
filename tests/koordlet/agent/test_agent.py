"""The agent's loops: a defect in one costs nothing of the others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from koord_model.node_info import NodeCPUInfo
from koordlet.agent import agent
from koordlet.agent.agent import reserved_cpus, with_strategies
from koordlet.states_informer.state.informer_age import InformerAge
from koordlet.states_informer.state.share_pools import ReservedCPUs


async def _group_that_fails(error: Exception) -> None:
    async def fail() -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())


async def test_a_loop_with_a_defect_begins_anew(monkeypatch, caplog):
    monkeypatch.setattr(agent, "_AGAIN_SECONDS", 0.0)
    defects = [KeyError("status"), RuntimeError("oh")]

    async def loop() -> None:
        if defects:
            await _group_that_fails(defects.pop())

    await agent._run_forever(loop)
    reasons = [record.fields["reason"] for record in caplog.records]  # type: ignore[attr-defined]
    assert reasons == ["RuntimeError: oh", "KeyError: 'status'"]


async def test_a_loop_that_ends_by_itself_is_left():
    runs = []

    async def loop() -> None:
        runs.append(1)

    await agent._run_forever(loop)
    assert runs == [1]


@pytest.mark.parametrize(
    ("node", "age", "cpus", "expected"),
    [
        (None, None, NodeCPUInfo(()), None),
        (None, 3.0, NodeCPUInfo(()), ReservedCPUs()),
        ({"metadata": {}}, None, NodeCPUInfo(()), ReservedCPUs()),
        ({"metadata": {}}, 3.0, None, None),
    ],
    ids=["nothing said yet", "no such Node", "of the last run", "CPUs not counted yet"],
)
def test_reservations_are_known_once_node_and_machine_are(node, age, cpus, expected) -> None:
    ages = {"Node": InformerAge(age)}
    cluster: Any = SimpleNamespace(node=lambda: node, ages=lambda: ages)
    newest = SimpleNamespace(info=lambda _: cpus)
    observing: Any = SimpleNamespace(observer=SimpleNamespace(newest=newest))
    assert reserved_cpus(cluster, observing) == expected


def test_cpus_of_strategies_join_those_that_are_reserved() -> None:
    strategies: Any = SimpleNamespace(set_aside=ReservedCPUs(claims={"a": frozenset({3})}))
    reserved = ReservedCPUs(frozenset({0}), "0")
    found = with_strategies(lambda: reserved, strategies)
    assert found == ReservedCPUs(frozenset({0}), "0", {"a": frozenset({3})})
    assert found.all == {0, 3}
    assert with_strategies(lambda: None, strategies) is None  # not known yet stays not known
