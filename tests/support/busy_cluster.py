"""A large cluster as its leader knows it, and the page on which it shows that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from koord_manager.cluster_page.core.cluster_document import ClusterSummary
from koord_manager.cluster_page.neighbour import Neighbour
from koord_manager.cluster_page.pages import ClusterPageSources, cluster_pages
from koord_manager.noderesource.core.usage import ClusterUsage
from koord_model.elastic_quota import ElasticQuota
from koord_service.status import StatusServer, json_page

GIB = 1 << 30
CORES, MIB = 64_000, 256 * 1024


def usage(number: int) -> ClusterUsage:
    """Nodes of three pools that are not equally full; one in a hundred is silent."""
    random = Random(5)
    pools = (("web", 6, 5, 22, 14), ("batch", 5, 2, 8, 55), ("gpu", 3, 6, 30, 6))
    names, percents = [], {name: [] for name in ("cpu", "memory", "batch_offered", "batch_used")}
    for place in range(number):
        pool, alpha, beta, offered, used = pools[
            0 if place % 10 < 5 else 1 if place % 10 < 9 else 2
        ]
        names.append(f"{pool}-{place:05}")
        silent = random.random() < 0.01
        cpu = int(100 * random.betavariate(alpha, beta))
        row = {
            "cpu": cpu,
            "memory": int(100 * random.betavariate(beta + 2, alpha)),
            "batch_offered": int(max(0, random.gauss(offered + (100 - cpu) / 3, 6))),
            "batch_used": int(cpu * used / 100 * random.random()),
        }
        for name, column in percents.items():
            column.append(-1 if silent else row[name])
    known = {name: [max(0, value) for value in column] for name, column in percents.items()}
    cores = {name: sum(column) * CORES // 100 for name, column in known.items()}
    memory = number * MIB
    sums = {
        "capacity": {"cpu": number * CORES, "memory": memory},
        "used": {"cpu": cores["cpu"], "memory": sum(known["memory"]) * MIB // 100},
        "batch_offered": {"cpu": cores["batch_offered"], "memory": memory // 4},
        "batch_used": {"cpu": cores["batch_used"], "memory": memory // 9},
    }
    return ClusterUsage(names, {"cpu": [CORES] * number, "memory": [MIB] * number}, percents, sums)


def _quota(name: str, parent: str, used: int, runtime: int, least: int, most: int) -> ElasticQuota:
    amounts = [{"cpu": one * 1000, "memory": one * 4 * GIB} for one in (used, runtime, least, most)]
    return ElasticQuota(
        name, used=amounts[0], runtime=amounts[1], min=amounts[2], max=amounts[3], parent=parent
    )


def busy_summary(number: int) -> ClusterSummary:
    """Knowledge of the leader of so many nodes."""
    root = "koordinator-root-quota"
    quotas = (
        _quota("research", root, 910, 1000, 1000, 1600),
        _quota("language-models", "research", 640, 700, 400, 1000),
        _quota("vision", "research", 270, 300, 600, 1000),
        _quota("shop", root, 420, 500, 500, 900),
        _quota("search", "shop", 180, 200, 250, 500),
        _quota("orders", "shop", 240, 300, 250, 500),
    )
    rollout = {"version": "7c1b02f9a3d4", "failed": 0, "problem": "", "paused": ""}
    return ClusterSummary(
        usage=usage(number),
        is_complete=True,
        closed=frozenset(f"web-{place:05}" for place in range(0, number, 100)),
        quotas={quota.name: quota for quota in quotas},
        rollouts=[
            {**rollout, "entry": "burst-more", "canary": "10%", "wanted": 500, "applied": 470},
            {
                **rollout,
                "entry": "offload-memory",
                "canary": "5%",
                "wanted": 250,
                "applied": 250,
                "paused": "by koord-manager: evictions an hour 0.8 with it, 0.1 without",
            },
        ],
        node_evictions={"total": 31, "most": [("web-00413", 9), ("web-02077", 4)]},
        backstop={"unhealthy": 3, "is_stopped": False, "evictions": {"evicted": 12}},
    )


def standing(**more: Any) -> dict[str, Any]:
    leader = "koord-manager-5d8c7b-x2x9k_1a2b3c4d"
    found = {"version": "0.1.0", "identity": leader, "leads": True, "leader": leader}
    return {**found, "leader_address": "", "problems": [], **more}


@contextmanager
def served_cluster(
    known: ClusterSummary | None, who: dict[str, Any], *neighbours: dict[str, Any] | None
) -> Iterator[str]:
    """The page's address; neighbours are pages of scheduler and descheduler, ``None``: away."""
    servers, targets = [], []
    for shown in neighbours:
        made = {path: lambda _, page=page: json_page(page) for path, page in (shown or {}).items()}
        server = StatusServer("127.0.0.1:0", made)
        server.start()
        host, _, port = server.address.rpartition(":")
        targets.append((host, int(port)))
        if shown is None:
            server.stop()
        servers.append(server)
    targets += [None] * (2 - len(targets))
    sources = ClusterPageSources(
        lambda: who,
        lambda: known,
        _ask,
        {
            "scheduler": Neighbour(targets[0], "scheduler_address", ("/v1/devices",)),
            "descheduler": Neighbour(targets[1], "descheduler_address"),
        },
    )
    server = StatusServer("127.0.0.1:0", cluster_pages(sources))
    server.start()
    try:
        yield f"http://{server.address}/"
    finally:
        for one in (server, *servers):
            one.stop()


def _ask(question: Any) -> Any:
    return asyncio.run(question())
