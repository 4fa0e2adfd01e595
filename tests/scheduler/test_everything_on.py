"""The assembled scheduler, with every plugin on, through all that happens to it.

After each step every page answers, and every placement keeps every hard rule, recomputed from
documents alone.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from koord_model.keys import GPU
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.coscheduling.gangs_document import gangs_document
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.quota_metrics import quota_figures
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.reservation_metrics import ReservationMetrics
from koord_scheduler.program.explanation import (
    Now,
    explain_placed,
    explain_queued,
    read_as_pending,
)
from koord_scheduler.program.overview import nodes_overview, queue_overview
from koord_scheduler.program.services import ServiceSources, service_pages
from koord_service.status import Query

from tests.support.assembled_claims import allocations, claims_of
from tests.support.assembled_scheduler import CPUS, START, AssembledCluster, Held
from tests.support.examples import fewer

STEPS = 30


@pytest.mark.parametrize("every_plugin", [True, False])
# Each takes most of a second; and none is smaller than another.
@settings(fewer(5), phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_pages_answer_and_rules_hold(every_plugin: bool, seed: int) -> None:
    cluster = AssembledCluster(Random(seed), every_plugin=every_plugin)
    check_pages(cluster)
    for name in ("n1", "n2", "n3", "n4"):
        cluster.node(name)
    for _ in range(STEPS):
        cluster.change()
        before = set(cluster.binding)
        while (decision := cluster.decide()) is not None:
            assert not (isinstance(decision, Refusal) and decision.defect), decision.defect
            if isinstance(decision, Placement):
                check_placement(cluster, decision)
        if before != set(cluster.binding):
            check_nodes(cluster)
        check_pages(cluster)


def check_placement(cluster: AssembledCluster, placement: Placement) -> None:
    """Its node lets the pod run, by what nodes and pods say."""
    if placement.pod.waiting.stands_for is not None:
        return
    document = cluster.of("Pod")[placement.pod.key]
    assert "deletionTimestamp" not in document["metadata"]
    node = cluster.of("Node")[placement.node]
    for key, value in document["spec"].get("nodeSelector", {}).items():
        assert node["metadata"]["labels"][key] == value
    if node["spec"]["taints"]:
        assert document["spec"].get("tolerations")
    held = cluster.held()[placement.node]
    (own,) = (one for one in held if one.key == placement.pod.key)
    for other in held:
        assert other is own or not (own.refuses(other) or other.refuses(own)), other.key
    check_claims(cluster, document, placement.node)
    wanted = document["spec"]["containers"][0]["resources"]["requests"].get(GPU)
    if wanted and "DeviceShare" in cluster.plugins:
        assert sum(own.cards.values()) == int(wanted)


def check_claims(cluster: AssembledCluster, pod: dict[str, Any], node: str) -> None:
    """Each device has one claim at most, and those of a pod are on its node."""
    found = allocations(cluster.of("ResourceClaim"), cluster.binding.values())
    used = Counter(device for devices in found.values() for device in devices)
    assert all(count == 1 for count in used.values()), used
    for key in claims_of(pod):
        assert {pool for pool, _ in found[key]} == {node}


def check_nodes(cluster: AssembledCluster) -> None:
    """No node, no CPU and no card has more than there is of it; nor has a quota."""
    for name, held in cluster.held().items():
        if name not in cluster.of("Node"):
            continue
        assert len(held) <= 10
        assert _cpus_with_reservations(cluster, name, held) <= CPUS, name
        cpus = Counter(cpu for one in held for cpu in one.cpuset)
        assert all(count == 1 for count in cpus.values()), (name, cpus)
        cards: Counter[int] = sum((one.cards for one in held), Counter())
        assert all(used <= 100 for used in cards.values()), (name, cards)


def _cpus_with_reservations(cluster: AssembledCluster, node: str, held: list[Held]) -> int:
    """What pods have, and what is left of the reservations of a node."""
    total = sum(one.cpus for one in held)
    if "Reservation" not in cluster.plugins:
        return total
    for name, document in cluster.of("Reservation").items():
        status = document["status"]
        if status.get("nodeName") == node and status["phase"] == "Available":
            owned = [one.cpus for one in held if one.reservation == name]
            once = document["spec"].get("allocateOnce", True) and owned
            total += 0 if once else max(0, int(status["allocatable"]["cpu"]) - sum(owned))
    return total


def check_pages(cluster: AssembledCluster) -> None:
    """Everything that can be asked for is plain JSON."""
    scheduler, now = cluster.scheduler, Now(cluster.now, START + cluster.now)
    for pod in tuple(scheduler.queue.pods.values()):
        _is_json(explain_queued(scheduler, pod, now))
    for key, placed in tuple(scheduler.placed.by_key.items()):
        if key in cluster.of("Pod"):
            form = read_as_pending(json.dumps(cluster.of("Pod")[key]).encode(), scheduler.nodes)
            _is_json(explain_placed(scheduler, placed, form))
    _is_json(queue_overview(scheduler.queue, cluster.now))
    _is_json(nodes_overview(scheduler.nodes))
    _is_json(gangs_document(scheduler))
    quotas = scheduler.nodes.find(QuotaColumns)
    if quotas is not None:
        _is_json([(one.tree, dict(one.fields)) for one in quota_figures(quotas)])
    list(GangMetrics(scheduler.gangs).collect())
    reservations = scheduler.nodes.find(ReservationColumns)
    if reservations is not None:
        list(ReservationMetrics(reservations.objects).collect())
    sources = ServiceSources(scheduler, dict, lambda: True, lambda make: make())
    for path, page in service_pages(sources).items():
        for name in ("n1", "q1", "shop/q1"):
            given = {part[1:]: name for part in path.split("/") if part.startswith(":")}
            assert page(Query(values={**given, "includePods": "true"})).status in (200, 404), path


def _is_json(document: Any) -> None:
    json.dumps(document, allow_nan=False)
