"""The controller tells the API what became of reservations."""

from __future__ import annotations

from koord_kube.protocol.request import Request
from koord_scheduler.reservation_controller import ReservationController

from tests.support.reservations import ReservationCluster


async def written(cluster: ReservationCluster) -> dict[str, object]:
    """The phases that it writes, by the names of reservations; ``None``: something else."""
    requests: list[Request] = []

    async def write(request: Request) -> bytes:
        requests.append(request)
        return b"{}"

    await ReservationController(cluster.scheduler, write, None).look()
    return {one.name: one.body["status"].get("phase") for one in requests}


async def test_a_reservation_ends_though_its_pod_ended_first() -> None:
    cluster = ReservationCluster("n1")
    cluster.reservation("one", "4", "n1")
    cluster.reservation("many", "4", "n1", allocateOnce=False)
    for name in ("one", "many"):
        cluster.pod(name, "1", "n1", reservation=name)
        cluster.scheduler.remove_pod(f"shop/{name}")
    assert await written(cluster) == {"one": "Succeeded"}
