"""Lets write only who leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from koord_kube.api import Api, Change, NotLeadingError, Object, Page
from koord_kube.rate import TokenBucket
from koord_kube.resources import Resource


class Fenced:
    """An ``Api`` whose writes raise ``NotLeadingError`` unless ``leads`` says yes at that moment.

    Reads pass. ``writes`` slows writes down: one that waits for its turn is asked about only
    when its turn has come, so none that was wished for while leading is sent afterwards. For
    that the ``api`` below must not slow them down itself (a ``qps`` of 0 in its ``Limits``).
    """

    def __init__(
        self, api: Api, leads: Callable[[], bool], writes: TokenBucket | None = None
    ) -> None:
        self._api = api
        self._leads = leads
        self._writes = writes

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._api.get(resource, name, namespace)

    def pages(
        self,
        resource: Resource,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[Page, None]:
        return self._api.pages(resource, namespace, field_selector, label_selector)

    def watch(
        self,
        resource: Resource,
        version: str,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[Change, None]:
        return self._api.watch(resource, version, namespace, field_selector, label_selector)

    async def create(
        self,
        resource: Resource,
        given: Object,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> Object:
        await self._pass(resource, name)
        return await self._api.create(resource, given, namespace, name, subresource)

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
        *,
        version: str = "",
    ) -> Object:
        await self._pass(resource, name)
        return await self._api.patch(
            resource, name, change, namespace, subresource, version=version
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        given: Object,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        await self._pass(resource, name)
        return await self._api.replace(resource, name, given, namespace, subresource)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
    ) -> None:
        await self._pass(resource, name)
        await self._api.delete(resource, name, namespace, uid=uid, version=version)

    async def _pass(self, resource: Resource, name: str) -> None:
        self._check(resource, name)
        if self._writes is not None:
            await asyncio.sleep(self._writes.take(time.monotonic()))
            self._check(resource, name)

    def _check(self, resource: Resource, name: str) -> None:
        if not self._leads():
            about = " ".join(part for part in (resource.plural, name) if part)
            raise NotLeadingError(f"{about}: not written, this program does not lead")
