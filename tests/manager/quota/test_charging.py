from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.api import Api, ApiError, ConflictError, Object
from koord_kube.protocol.resources import ELASTIC_QUOTAS, Resource
from koord_manager.quota.charging import QuotaCharger
from koord_manager.quota.core.charge import QuotaCharge
from koord_model.keys import ANNOTATION_CHILD_REQUEST, ANNOTATION_QUOTA_ADMISSION

from tests.support.merge_patch import merged
from tests.support.waiting import until


class OneQuota:
    """An API server with one quota, for 10 CPUs; each answer waits for some turns of the loop."""

    def __init__(self, turns: list[int], **annotations: str) -> None:
        self._turns = itertools.cycle(turns or [0])
        noted = {ANNOTATION_QUOTA_ADMISSION: '{"cpu": "10"}', **annotations}
        metadata = {"name": "q", "namespace": "n", "resourceVersion": "1", "annotations": noted}
        self.quota: Object = {"metadata": metadata, "spec": {"max": {"cpu": "100"}}}
        self.reads = self.writes = 0
        self.failure: ApiError | None = None

    @property
    def charged(self) -> Any:
        return json.loads(self.quota["metadata"]["annotations"].get(ANNOTATION_CHILD_REQUEST, "{}"))

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        assert (resource, name, namespace) == (ELASTIC_QUOTAS, "q", "n")
        await self._wait()
        self.reads += 1
        return self.quota

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        *,
        version: str = "",
    ) -> Object:
        await self._wait()
        now = self.quota["metadata"]["resourceVersion"]
        if self.failure is not None:
            raise self.failure
        if version != now:
            raise ConflictError("elasticquotas q: changed meanwhile", 409)
        self.writes += 1
        self.put(change)
        await self._wait()
        return self.quota

    def put(self, change: Mapping[str, Any]) -> None:
        version = str(int(self.quota["metadata"]["resourceVersion"]) + 1)
        self.quota = merged(merged(self.quota, change), {"metadata": {"resourceVersion": version}})

    async def _wait(self) -> None:
        for _ in range(next(self._turns)):
            await asyncio.sleep(0)


def charge(cpu: int, **more: Any) -> QuotaCharge:
    return QuotaCharge("q", "n", {"cpu": cpu * 1000}, **more)


def charger(api: OneQuota, **more: Any) -> QuotaCharger:
    return QuotaCharger(cast("Api", api), **more)


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=5), min_size=2, max_size=3),
    st.lists(st.integers(0, 4), max_size=7),
)
def test_several_managers_never_admit_more_than_there_is(
    pods: list[list[int]], turns: list[int]
) -> None:
    async def run() -> None:
        api = OneQuota(turns)
        managers = [charger(api) for _ in pods]
        asked = [(one, cpu) for one, mine in zip(managers, pods, strict=True) for cpu in mine]
        refusals = await asyncio.gather(*(one.charge(charge(cpu)) for one, cpu in asked))
        admitted = sum(
            cpu for (_, cpu), refusal in zip(asked, refusals, strict=True) if not refusal
        )
        assert admitted <= 10
        assert api.charged == ({"cpu": str(admitted)} if admitted else {})
        assert admitted  # 5 CPUs fit, whoever is first

    asyncio.run(run())


async def test_those_who_wait_are_charged_with_one_write() -> None:
    api = OneQuota([1])
    one = charger(api)
    refusals = await asyncio.gather(*(one.charge(charge(cpu)) for cpu in (1, 2, 3, 7, 1)))
    assert [bool(refusal) for refusal in refusals] == [False, False, False, True, False]
    assert (api.charged, api.writes) == ({"cpu": "7"}, 1)


async def test_who_is_gone_is_not_charged() -> None:
    api = OneQuota([5])
    one = charger(api)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(one.charge(charge(1)))
        await asyncio.sleep(0)
        second, third = (group.create_task(one.charge(charge(1))) for _ in range(2))
        await asyncio.sleep(0)
        third.cancel()
    assert (first.result(), second.result()) == ("", "")
    assert api.charged == {"cpu": "2"}


class SlowAnswers(OneQuota):
    """Writes at once, and answers that only when it may."""

    def __init__(self) -> None:
        super().__init__([])
        self.answers = asyncio.Event()

    async def patch(self, *given: Any, **more: Any) -> Object:
        answer = await super().patch(*given, **more)
        await self.answers.wait()
        return answer


@pytest.mark.parametrize("ends", ["deadline", "client"])
async def test_the_end_of_one_is_not_the_end_of_the_others(ends: str) -> None:
    """What was written for all is not written again for those who still wait."""
    api = SlowAnswers()
    one = charger(api, answer=0.2)
    async with asyncio.TaskGroup() as group:
        before = group.create_task(one.charge(charge(1)))
        await asyncio.sleep(0.02)
        first = group.create_task(one.charge(charge(2)))
        await asyncio.sleep(0.13)
        second = group.create_task(one.charge(charge(3)))
        await asyncio.sleep(0)
        api.answers.set()
        await before
        api.answers.clear()
        await until(lambda: api.writes == 2, "the first one's and the second one's write")
        if ends == "client":
            first.cancel()
        await asyncio.sleep(0.1)
        api.answers.set()
    assert second.result() == ""
    assert first.cancelled() or "try again" in first.result()
    assert (api.charged, api.writes) == ({"cpu": "6"}, 2)
    assert one._queues == {}


async def test_what_the_scheduler_counts_less_is_free_again() -> None:
    api = OneQuota([], **{ANNOTATION_CHILD_REQUEST: '{"cpu": "10"}'})
    one = charger(api)
    assert await one.charge(charge(1))
    lower = {ANNOTATION_CHILD_REQUEST: '{"cpu": "9"}'}
    api.put({"metadata": {"annotations": lower}})
    assert await one.charge(charge(1)) == ""
    assert api.charged == {"cpu": "10"}


async def test_a_dry_run_writes_nothing() -> None:
    api = OneQuota([])
    assert await charger(api).charge(charge(10, dry_run=True)) == ""
    assert await charger(api).charge(charge(11, dry_run=True))
    assert api.writes == 0


async def test_without_an_answer_nobody_is_admitted() -> None:
    api = OneQuota([])
    api.failure = ApiError("elasticquotas q: 503", 503)
    reported: list[str] = []
    one = charger(api, on_warning=reported.append)
    assert "503" not in await one.charge(charge(1))
    assert "503" in reported[0]
    api.failure = ConflictError("elasticquotas q: changed meanwhile", 409)
    assert "could not be charged" in await one.charge(charge(1))
    assert api.reads == 1 + 4
    api.failure, api.get = None, lambda *_: asyncio.sleep(60)  # type: ignore[method-assign,assignment,return-value]
    slow = charger(api, answer=0.01)
    assert "try again" in await slow.charge(charge(1))


async def test_an_annotation_that_cannot_be_read_admits_nobody() -> None:
    api = OneQuota([], **{ANNOTATION_CHILD_REQUEST: "much"})
    reported: list[str] = []
    assert await charger(api, on_warning=reported.append).charge(charge(1))
    assert ANNOTATION_CHILD_REQUEST in reported[0]
