"""The controller tells the API what became of reservations."""

from __future__ import annotations

import pytest
from koord_kube.protocol.request import Request
from koord_scheduler.plugins.reservation.controller import ReservationController

from tests.support.reconciling import reconcile_due
from tests.support.reservations import ReservationCluster


async def written(cluster: ReservationCluster) -> dict[str, object]:
    """The phases that it writes, by the names of reservations; ``None``: something else."""
    requests: list[Request] = []

    async def write(request: Request) -> bytes:
        requests.append(request)
        return b"{}"

    await reconcile_due(ReservationController(cluster.scheduler, write, None))
    return {one.name: one.body["status"].get("phase") for one in requests}


async def test_one_that_is_on_its_way_to_a_node_is_left_alone() -> None:
    cluster = ReservationCluster("n1")
    cluster.pod("a", "3", "n1")
    more = {"preAllocation": True, "allocatePolicy": "Restricted"}
    cluster.reservation("r", "4", **more)
    cluster.decide()
    cluster.pod("a", "3", "n1", reservation="r")
    assert await written(cluster) == {}
    cluster.reservation("r", "4", "n1", **more)
    assert await written(cluster) == {"r": "Succeeded"}


async def test_a_reservation_ends_though_its_pod_ended_first() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("one", "4", "n1")
    cluster.reservation("many", "4", "n1", allocateOnce=False)
    for name in ("one", "many"):
        cluster.pod(name, "1", "n1", reservation=name)
        cluster.scheduler.remove_pod(f"shop/{name}")
    assert await written(cluster) == {"one": "Succeeded"}


async def test_the_status_says_which_pods_have_how_much() -> None:
    cluster, requests = ReservationCluster("n1"), list[Request]()

    async def write(request: Request) -> bytes:
        requests.append(request)
        return b"{}"

    for name in ("r", "other"):
        cluster.reservation(name, "4", "n1", allocateOnce=False)
    for name, reservation in (("b", "r"), ("a", "r"), ("c", "other"), ("d", "")):
        cluster.pod(name, "1", "n1", reservation=reservation)
    await reconcile_due(ReservationController(cluster.scheduler, write, None))
    found = {one.name: one.body["status"] for one in requests}
    assert {name: status["allocated"] for name, status in found.items()} == {
        "r": {"cpu": "2"},
        "other": {"cpu": "1"},
    }
    assert [owner["name"] for owner in found["r"]["currentOwners"]] == ["a", "b"]


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_one_whose_node_is_gone_fails(node: str) -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("r", "4", node)
    assert await written(cluster) == ({} if node == "n1" else {"r": "Failed"})
    cluster.kinds["Node"].remove("n1")
    assert await written(cluster) == {"r": "Failed"}
