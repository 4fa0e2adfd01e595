"""How much memory is offloaded, and what best-effort pods may have, against Katalyst's own."""

from __future__ import annotations

import itertools
from typing import Any

from koord_model.node import Kernel, NodeView
from koord_model.node_info import NodeMemoryInfo, NumaNode
from koord_model.qos import QoSClass
from koordlet.qos_manager.strategies import memory_guard
from koordlet.qos_manager.strategies.memory_offload import strategy as memory_offload

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.views import STEADY, FakeCgroups, FakeHistory, FakeLatest, pod_view, stats, view

POD = pod_view("job", qos=QoSClass.BE)
KERNEL = NodeView(kernel=Kernel(knobs=frozenset({"memory.reclaim", "memory.high"})))
PAGE = 4096
COUNTERS = {"pgscan": "pgscan", "pgsteal": "pgsteal", "workingset_activate": "activate"}


# ---- memory_offload


def offloaded(vector: Vector) -> Fields:
    settings = memory_offload.Settings(
        policy=memory_offload.OffloadPolicy(vector.given["policy"].lower()),
        floor_percent=0,
        floor_bytes=0,
        least_bytes=1,
        most_bytes=1 << 60,
    )
    found, memory = {}, None
    rounds = vector.given["rounds"]
    for place, (before, now) in enumerate(itertools.pairwise(rounds)):
        made = memory_offload.plan(_measured(vector, place, before, now), settings, memory)
        memory = made.memory
        found[f"{place}"] = sum(int(one.value) for one in made.one_shot)
    return found


def _measured(vector: Vector, place: int, before: Object, now: Object) -> Any:
    inactive = {"inactive_anon": now["inactive"], "inactive_file": 0}
    sizes = {
        "page_cache": now["cache"],
        "file_mapped": now["mapped"],
        "swap_free": vector.given["swap"],
    }
    stat = {("pod_memory_stat", POD.uid, name): size for name, size in (inactive | sizes).items()}
    counted = {
        ("pod_memory_reclaim", POD.uid, name): stats(now[field] - before[field])
        for name, field in COUNTERS.items()
    }
    pressure = {("pod_psi", POD.uid, "mem", "avg10", "some"): stats(now["psi"])}
    return view(
        pods=(POD,),
        steady=STEADY + 30.0 * place,
        node=KERNEL,
        latest=FakeLatest({("pod_memory_usage", POD.uid): now["use"]} | stat),
        history=FakeHistory(counted | pressure),
    )


def targets(recorded: Object) -> Fields:
    return {f"{place}": size for place, size in enumerate(recorded["targets"])}


def swap_takes_more_than_cache(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There page cache bounds what goes to swap as well; here where there is no swap."""
    now = vector.given["rounds"][int(field) + 1]
    bound = max(2 * (now["cache"] - now["mapped"]), 1 << 20)
    return bool(vector.given["swap"] and there[field] == bound < here[field])


def test_how_much_is_offloaded() -> None:
    replay("memory_offloading", offloaded, targets, (swap_takes_more_than_cache,))


# ---- memory_guard


def guarded(vector: Vector) -> Fields:
    given = vector.given
    values: dict[tuple[str, ...], float] = {
        ("be_memory_current",): sum(numa["used"] for numa in given["numas"])
    }
    nodes = []
    for number, numa in enumerate(given["numas"]):
        nodes.append(NumaNode(number, numa["total"]))
        values["node_numa_memory_free", str(number)] = numa["free"] * PAGE
        values["node_numa_memory_low_watermark", str(number)] = numa["low"] * PAGE
        values["node_numa_memory_inactive_file", str(number)] = 1 << 40
    settings = memory_guard.Settings(
        enable=True,
        watermark_factor=given["factor"],
        reserved_bytes=given["critical"],
        reserved_percent=100,
        idle_cache_percent=0,
    )
    info = NodeMemoryInfo(sum(node.memory for node in nodes), tuple(nodes))
    seen = view(node=KERNEL, latest=FakeLatest(values, info), cgroups=FakeCgroups())
    [high] = memory_guard.plan(seen, settings, None).desired
    return {"high": high.value}


def high(recorded: Object) -> Fields:
    return {"high": -(-recorded["high"] // PAGE) * PAGE}


def never_below_use(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There what is in use may be above the value; here they may have it, and 256 MiB at least."""
    use = max(sum(numa["used"] for numa in vector.given["numas"]), 256 << 20)
    return bool(there[field] <= use <= here[field] < use + PAGE)


def test_what_best_effort_pods_may_have() -> None:
    replay("memory_guard", guarded, high, (never_below_use,))
