"""Who is let in by the API server's word, and what unknown callers can make it be asked."""

from __future__ import annotations

import asyncio
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import TOKEN_REVIEWS, Resource
from koord_serving.delegated_auth.request_authorizer import RequestAuthorizer

from tests.support.kube_api import Identity, Reviews

READS = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Side:
    """An API server's reviews, and what asks for them."""

    def __init__(self) -> None:
        self.reviews, self.clock = Reviews(), Clock()
        self.warnings: list[str] = []
        self.authorizer = RequestAuthorizer(
            self.reviews.api, self.warnings.append, monotonic=self.clock
        )
        self.reviews.access.identities["prometheus"] = Identity("prometheus", ("scrapers",))
        self.reviews.access.identities["jane"] = Identity("jane")
        self.reviews.access.grant("scrapers", READS)

    async def status(self, token: str, verb: str = "get", path: str = "/metrics") -> int:
        return (await self.authorizer.check(f"Bearer {token}", verb, path)).status


async def test_who_is_let_in() -> None:
    side = Side()
    assert await side.status("prometheus") == 200
    assert await side.status("prometheus", path="/events") == 403
    assert await side.status("prometheus", verb="post") == 403
    assert await side.status("jane") == 403
    assert await side.status("unknown") == 401
    assert (await side.authorizer.check("", "get", "/metrics")).status == 401
    assert side.warnings == []


async def test_answers_count_for_ten_seconds() -> None:
    side = Side()
    assert [await side.status("prometheus"), await side.status("jane")] == [200, 403]
    asked = len(side.reviews.asked)
    side.reviews.access.revoke("scrapers")
    side.reviews.access.grant("jane", READS)
    side.clock.now += 9.9
    assert [await side.status("prometheus"), await side.status("jane")] == [200, 403]
    assert len(side.reviews.asked) == asked
    side.clock.now += 0.1
    assert [await side.status("prometheus"), await side.status("jane")] == [403, 200]


async def test_nobody_is_let_in_while_the_api_server_is_away_and_the_caller_learns_no_reason() -> (
    None
):
    side = Side()
    side.reviews.away = True
    verdict = await side.authorizer.check("Bearer prometheus", "get", "/metrics")
    assert verdict.status == 503
    assert side.warnings == ["token review: nobody answers"]
    assert "nobody answers" not in verdict.reason
    side.reviews.away = False
    assert await side.status("prometheus") == 200


async def test_unknown_callers_are_reviewed_at_a_bounded_rate_and_keep_nobody_out() -> None:
    side = Side()
    assert await side.status("prometheus") == 200
    before = len(side.reviews.asked)
    found = [await side.status(f"unknown-{number}") for number in range(2000)]
    assert set(found) == {401, 429}
    assert len(side.reviews.asked) - before <= 8
    # Once the answer counts no more, and the unknown callers' turns are still spent.
    side.clock.now += 10.0
    for number in range(100):
        await side.status(f"unknown-{number}")
    assert await side.status("prometheus") == 200


async def test_few_are_reviewed_at_once() -> None:
    side, release, begun = Side(), asyncio.Event(), 0
    plain = side.reviews.create

    async def slow(resource: Resource, given: Object, *more: Any) -> Object:
        nonlocal begun
        if resource == TOKEN_REVIEWS:
            begun += 1
            await release.wait()
        return await plain(resource, given, *more)

    side.reviews.create = slow  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(side.status(f"unknown-{number}")) for number in range(7)]
        while begun < 4 or sum(task.done() for task in tasks) < 3:
            await asyncio.sleep(0)
        release.set()
    assert sorted(task.result() for task in tasks) == [401] * 4 + [429] * 3


async def test_no_token_is_kept() -> None:
    side = Side()
    await side.status("prometheus")
    await side.status("s3cret-unknown")
    kept = repr([vars(side.authorizer._allowed), vars(side.authorizer._refused)])
    assert "s3cret" not in kept
    assert "'prometheus'" not in kept
