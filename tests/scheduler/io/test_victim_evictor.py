"""Victims of preemption end one after another, as far as the API server lets them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import ApiError, NotFoundError
from koord_kube.protocol.request import Request
from koord_kube.shared_backoff import SharedBackoff
from koord_scheduler.io.victim_evictor import VictimEvictor

from tests.support.waiting import until

FORBIDDEN = ApiError("pods shop/a: 403 no", 403)
GONE = NotFoundError("gone", 404)
WRITES = ["PATCH urgent", "PATCH a", "DELETE a", "PATCH b", "DELETE b"]


def plan() -> Any:
    waiting = SimpleNamespace(scheduler_name="default-scheduler")
    pod = SimpleNamespace(key="shop/urgent", uid="u", waiting=waiting)
    victims = [SimpleNamespace(key=f"shop/{name}", uid=f"u-{name}") for name in "ab"]
    return SimpleNamespace(
        pod=pod, displaced=(), preemption=SimpleNamespace(node="n1", victims=victims)
    )


@pytest.mark.parametrize(
    ("refused", "error", "written", "preempted", "warnings"),
    [
        ("", GONE, WRITES, ["shop/a", "shop/b"], []),
        ("DELETE a", GONE, WRITES, ["shop/a", "shop/b"], []),
        ("DELETE a", FORBIDDEN, WRITES[:3], [], [f"{FORBIDDEN} (preemption for shop/urgent)"]),
        ("PATCH a", FORBIDDEN, WRITES[:2], [], [f"{FORBIDDEN} (preemption for shop/urgent)"]),
    ],
)
async def test_a_victim_that_may_not_end_ends_the_plan(
    refused: str, error: ApiError, written: list[str], preempted: list[str], warnings: list[str]
) -> None:
    sent: list[Request] = []
    ended: list[str] = []
    said: list[str] = []

    async def write(request: Request) -> bytes:
        sent.append(request)
        if f"{request.method} {request.name}" == refused:
            raise error
        return b"{}"

    evictor = VictimEvictor(
        write,
        PodEvictor(write, SharedBackoff()),
        lambda victim, _: ended.append(victim.key),
        on_warning=said.append,
    )
    evictor.evict(plan())
    async with anyio.create_task_group() as group:
        group.start_soon(evictor.run)
        await until(lambda: len(sent) == len(written))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert [f"{request.method} {request.name}" for request in sent] == written
    assert (ended, said) == (preempted, warnings)
