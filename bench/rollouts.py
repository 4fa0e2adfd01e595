"""CPU that following rollouts costs the manager of 10,000 nodes, and how often chance halts one.

Nodes report once a minute, each with 30 pods and an echo, so a look each 10 s has a sixth of the
statuses to read anew. Three entries have a canary of 10 %. The API server is a stand-in that keeps
one ConfigMap. The last figures are of days without any difference between nodes: whoever is halted
then is halted by chance.

``python -m bench.rollouts`` measures and writes bench/results/rollouts.md.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, NotFoundError
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.nodeslo.controller import NodeSLOController
from koord_manager.rollout.controller import RolloutController
from koord_manager.rollout.core.echoes import Echo, RolloutReport
from koord_manager.rollout.core.follower import EntryNow, RolloutFollower
from koord_manager.rollout.core.pairing import NodeTraits
from koord_manager.slo_config.core.config import UNREAD, SLOConfig, advance
from koord_manager.slo_config.informer import SLOConfigInformer

from bench import report
from bench.large_cluster import status
from bench.report import Measure

NODES = 10_000
LOOKS = 36
SETTINGS = {"nodes": NODES, "entries with a canary of 10 %": 3, "days": "without a difference"}
_REPORTS_IN = 6
_DAYS = 20
_POOLS = ("a", "b", "c")


class _Api:
    """Keeps the state, as an API server would; counts writes."""

    def __init__(self) -> None:
        self.state: dict[str, Any] | None = None
        self.writes = 0

    async def get(self, *_: object) -> dict[str, Any]:
        if self.state is None:
            raise NotFoundError("none", 404)
        return self.state

    async def create(self, _resource: object, given: dict[str, Any], *_: object) -> None:
        self.state, self.writes = given, self.writes + 1

    async def replace(self, _resource: object, _name: str, given: dict[str, Any], *_: str) -> None:
        self.state, self.writes = given, self.writes + 1


class _Configs:
    def __init__(self, data: Mapping[str, str]) -> None:
        self.data = data
        self.config: SLOConfig = advance(UNREAD, data)[0]


class _Nodes:
    def __init__(self) -> None:
        self.objects = {
            f"node-{number}": ClusterNode(
                f"node-{number}",
                labels={"pool": _POOLS[number % 3], "kubernetes.io/os": "linux"},
                allocatable={"cpu": "64"},
            )
            for number in range(NODES)
        }


def _config() -> dict[str, str]:
    entries = [
        {
            "name": f"offload-{pool}",
            "nodeSelector": {"matchLabels": {"pool": pool}},
            "canary": "10%",
            "strategies": {"memory_offload": {"mode": "on"}},
        }
        for pool in _POOLS
    ]
    return {"pykoord-config": json.dumps({"nodeStrategies": entries})}


def _with_echo(text: bytes, section: Mapping[str, Any], chance: random.Random) -> bytes:
    found = msgspec.json.decode(text)
    rollout = {**section, "evictions": 3, "restarts": 4, "psi": chance.gauss(10, 3)}
    rollout |= {"schedWait": chance.gauss(40, 9), "batchCores": chance.gauss(8, 1)}
    found["extensions"] = {"pykoord": {"rollout": rollout}}
    return msgspec.json.encode(found)


async def _looks() -> tuple[list[float], float, int, int]:
    """CPU seconds of each look, those of the first, bytes of the state, and writes."""
    api, nodes, configs = _Api(), _Nodes(), _Configs(_config())
    chance, now = random.Random(91), [0.0]
    slos = NodeSLOController(
        cast("Api", api), cast("Any", nodes), cast("SLOConfigInformer", configs), print
    )
    layers = configs.config.extension
    assert layers is not None
    texts = [status(number, 0) for number in range(10)]
    sections = {}
    for name, node in nodes.objects.items():
        entry = slos.rollout.entry_for(layers, name, node.labels, is_new=False)
        sections[name] = slos.rollout.section_of(layers, entry, is_compared=True)["rollout"]
    statuses: dict[str, bytes] = {}

    def refresh(part: int) -> None:
        for number in range(part, NODES, _REPORTS_IN):
            name = f"node-{number}"
            section = cast("Mapping[str, Any]", sections[name])
            statuses[name] = _with_echo(texts[number % 10], section, chance)

    for part in range(_REPORTS_IN):
        refresh(part)
    made = RolloutController(
        *(cast("Api", api), cast("Any", nodes), cast("SLOConfigInformer", configs), slos),
        statuses.get,
        cast("EventRecorder", None),
        name="slo-controller-config",
        namespace="koordinator-system",
        on_warning=print,
        clock=lambda: now[0],
    )
    spent = []
    for look in range(LOOKS):
        now[0] += 10.0
        refresh(look % _REPORTS_IN)
        began = time.process_time()
        await made.look()
        spent.append(time.process_time() - began)
    return spent[1:], spent[0], len(json.dumps(api.state)), api.writes


def _false_halts(canaries: int) -> int:
    """Days of ``_DAYS`` in which an entry is halted although nodes do not differ."""
    return sum(_is_halted(canaries, day) for day in range(_DAYS))


def _is_halted(canaries: int, day: int) -> bool:
    chance, follower = random.Random(day), RolloutFollower()
    mine = [f"c{number}" for number in range(canaries)]
    others = [f"o{number}" for number in range(4 * canaries)]
    usual = {name: chance.uniform(5, 15) for name in (*mine, *others)}  # no node is as another
    evictions = dict.fromkeys(usual, 0)
    entry = EntryNow("e", "v2", 0, {}, frozenset(mine), frozenset(others), canary="20%")
    traits = {name: NodeTraits(("", 64.0), chance.random()) for name in usual}
    for minute in range(24 * 60):
        reports = {}
        for name, level in usual.items():
            evictions[name] += chance.random() < 0.5 / 60
            echo = Echo(
                version="v2" if name in evictions.keys() & set(mine) else "v1",
                evictions=evictions[name],
                psi=max(0.0, chance.gauss(level, 4)),
                sched_wait=max(0.0, chance.gauss(4 * level, 20)),
            )
            reports[name] = RolloutReport(echo, 32.0)
        if follower.look([replace(entry)], reports, traits, 60.0 * minute, ""):
            return True
    return False


def measure() -> list[Measure]:
    spent, first, size, writes = asyncio.run(_looks())
    low, high = report.median_interval(spent)
    share = [100 * one / 10 for one in spent]
    figures: list[tuple[str, str, float, float | None, tuple[float, float] | None]] = [
        ("look each 10 s, 1,667 new reports", "CPU s", statistics.median(spent), 0.5, (low, high)),
        ("share of a core", "%", statistics.fmean(share), 5.0, None),
        ("longest look (judgement of 300 pairs)", "CPU s", max(spent), None, None),
        ("first look: all reports", "CPU s", first, None, None),
        ("state in the ConfigMap", "KiB", size / 1024, 512.0, None),
        (f"writes in {LOOKS} looks", "", writes, None, None),
    ]
    counts: Callable[[int], float] = lambda canaries: float(_false_halts(canaries))  # noqa: E731
    figures += [
        (
            f"days of {_DAYS} halted by chance, canary of {canaries}",
            "",
            counts(canaries),
            None,
            None,
        )
        for canaries in (1, 2, 6, 20)
    ]
    return [
        Measure(name, unit, ours, "", None, target, interval=interval)
        for name, unit, ours, target, interval in figures
    ]


def main() -> None:
    measures = measure()
    print(report.table(measures))
    report.write(measures, "rollouts", SETTINGS)


if __name__ == "__main__":
    main()
