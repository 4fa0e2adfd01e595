"""The controller and its neighbour NodeSLO before a double of the API server."""

from __future__ import annotations

import json
from typing import Any

from koord_kube.protocol.resources import CONFIG_MAPS, EVENTS, NODE_SLOS, NODES
from koord_manager.nodeslo.controller import NodeSLOController
from koord_manager.rollout.controller import RolloutController
from koord_manager.rollout.core import follower
from koord_model.times import rfc3339

from tests.manager.conftest import NAME, NAMESPACE, Bench
from tests.support.waiting import until

STATE = f"{NAME}-rollout"
SELECTOR = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}


def entry(mode: str = "on", **more: Any) -> dict[str, Any]:
    strategies = {"memory_offload": {"mode": mode}}
    given = {"name": "offload", "nodeSelector": SELECTOR, "canary": "50%"}
    return {**given, "strategies": strategies, **more}


class CountingController(RolloutController):
    """Says how often it has looked: the test looks by itself then, not beside it."""

    looks = 0

    async def look(self) -> None:
        await super().look()
        self.looks += 1


class Cluster:
    """Eight nodes whose koordlets echo what their NodeSLO says."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.now = 1000.0
        self.evictions = 0
        self.names = [f"n{number}" for number in range(8)]
        for name in self.names:
            bench.api.put(*_node(name))

    def configure(self, *entries: dict[str, Any]) -> None:
        data = {"pykoord-config": json.dumps({"nodeStrategies": entries})}
        meta = {"name": NAME, "managedFields": [{"manager": "kubectl-edit", "time": "2026"}]}
        self.bench.api.put(CONFIG_MAPS, {"metadata": meta, "data": data}, NAMESPACE)

    def order(self, **order: Any) -> None:
        state = self.bench.api.get(CONFIG_MAPS, STATE, NAMESPACE)
        data = {**state["data"], "orders": json.dumps({"offload": order})}
        self.bench.api.put(CONFIG_MAPS, {**state, "data": data}, NAMESPACE)

    def lead(self) -> CountingController:
        """A manager that leads from now on."""
        bench = self.bench
        configs = bench.configs()
        nodes = bench.nodes(lambda *change: self.slos.node_changed(*change))
        slos = NodeSLOController(bench.client, nodes, configs, bench.reported.append)
        self.slos = slos
        made = CountingController(
            *(bench.client, nodes, configs, slos, self.status, bench.recorder()),
            name=NAME,
            namespace=NAMESPACE,
            on_warning=bench.reported.append,
            interval=3600.0,
            clock=lambda: self.now,
        )
        self.tasks = [bench.run(slos.run()), bench.run(made.run())]
        return made

    def die(self) -> None:
        for task in self.tasks:
            task.cancel()

    def section(self, name: str) -> dict[str, Any]:
        try:
            spec = self.bench.api.get(NODE_SLOS, name)["spec"]
        except KeyError:
            return {}
        section: dict[str, Any] = (spec.get("extensions") or {}).get("pykoord") or {}
        return section

    def status(self, name: str) -> bytes | None:
        echo = dict(self.section(name).get("rollout") or {})
        if echo:
            counts = {"evictions": self.evictions if self.is_canary(name) else 0, "restarts": 0}
            echo |= counts
        used = {"resources": {"cpu": "4"}}
        extensions = {"pykoord": {"rollout": echo}} if echo else {}
        found = {"updateTime": rfc3339(self.now), "nodeMetric": {"nodeUsage": used}}
        return json.dumps({**found, "extensions": extensions}).encode()

    def is_canary(self, name: str) -> bool:
        return "strategies" in self.section(name)

    def canaries(self) -> int:
        return sum(self.is_canary(name) for name in self.names)

    def state(self) -> dict[str, Any]:
        found = self.bench.api.get(CONFIG_MAPS, STATE, NAMESPACE)["data"]["observed"]
        state: dict[str, Any] = json.loads(found).get("offload", {})
        return state


def _node(name: str) -> tuple[Any, dict[str, Any]]:
    meta = {"name": name, "labels": {"pool": "web"}}
    return NODES, {"metadata": meta, "status": {"allocatable": {"cpu": "8"}}}


async def hours(cluster: Cluster, made: CountingController, looks: int) -> None:
    for _ in range(looks):
        cluster.now += follower.JUDGE_SECONDS
        cluster.evictions += 2
        await made.look()


async def test_harm_halts_an_entry_over_a_change_of_leader(bench: Bench) -> None:
    cluster = Cluster(bench)
    cluster.configure(entry())
    made = cluster.lead()
    await until(lambda: made.looks, "state")
    await until(lambda: cluster.canaries() == 4, "canaries")
    await until(lambda: all("rollout" in cluster.section(name) for name in cluster.names), "likes")
    await hours(cluster, made, 2)
    assert cluster.state()["history"][0]["by"] == "kubectl-edit"
    assert "paused" not in cluster.state()
    cluster.die()  # in the middle of it

    made = cluster.lead()
    await until(lambda: made.looks, "state")
    await hours(cluster, made, 4)
    pause = cluster.state()["paused"]
    assert pause["by"] == "koord-manager"
    assert pause["why"].startswith("24 evictions per node and hour, and 0 on nodes like these")
    [summary] = made.overview()
    assert (summary["entry"], summary["wanted"], summary["applied"]) == ("offload", 4, 4)
    assert summary["paused"] == f"by koord-manager: {pause['why']}"
    evictions = made.evictions()
    assert evictions["total"] == 4 * cluster.evictions
    assert {name for name, _ in evictions["most"]} == set(filter(cluster.is_canary, cluster.names))
    await bench.api.wait_for("create", plural="events")
    [event] = [bench.api.objects[key] for key in bench.api.objects if key.resource == EVENTS]
    assert event["reason"] == "RolloutPaused"
    assert event["involvedObject"]["name"] == NAME

    cluster.die()
    writes = bench.api.count("update", "configmaps")
    made = cluster.lead()
    await until(lambda: made.looks, "state")
    cluster.configure(entry(canary="100%"))  # does not reach the others
    await hours(cluster, made, 4)
    assert cluster.canaries() == 4
    assert cluster.state()["paused"] == pause
    assert bench.api.count("update", "configmaps") - writes <= 4

    cluster.order(accepted=pause["version"])
    await until(lambda: cluster.canaries() == 8, "somebody wants it so")


async def test_an_order_holds_from_the_first_second_and_a_broken_state_is_begun_anew(
    bench: Bench,
) -> None:
    cluster = Cluster(bench)
    cluster.configure(entry("on", canary=2))
    made = cluster.lead()
    await until(lambda: cluster.canaries() == 2, "canaries")
    await made.look()
    cluster.order(paused=True)
    cluster.die()
    cluster.configure(entry("on", canary=8))
    made = cluster.lead()
    await until(lambda: made.looks, "state")
    await made.look()
    assert cluster.canaries() == 2
    assert made.overview()[0]["paused"].startswith("by ")
    cluster.die()
    state = bench.api.get(CONFIG_MAPS, STATE, NAMESPACE)
    bench.api.put(CONFIG_MAPS, {**state, "data": {"observed": "{", "orders": "["}}, NAMESPACE)
    made = cluster.lead()
    await until(lambda: cluster.canaries() == 8, "nothing holds it")
    await made.look()
    assert cluster.state()["nodes"]["wanted"] == 8
    assert any("cannot be read" in line for line in bench.reported)
    bench.api.delete(CONFIG_MAPS, STATE, NAMESPACE)
    await until(lambda: made._known == "", "it is gone")
    await made.look()
    assert cluster.state()["nodes"]["wanted"] == 8
