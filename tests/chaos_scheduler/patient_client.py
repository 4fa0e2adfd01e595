"""A client for which an API server that is away is only slow."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio
from koord_kube.client import Client, Limits
from koord_kube.connect import connect
from koord_kube.protocol.api import ApiError, ConflictError, ListPage, NotFoundError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import Resource

from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.processes import PATIENCE


async def patient_client(server: KubeApiserver) -> PatientClient:
    """One that may do all, as often as it likes."""
    made = await connect(str(server.kubeconfig("admin", ADMIN)))
    return PatientClient(made.cluster, Limits(qps=0))


class PatientClient(Client):
    """A write whose answer was lost is sent again, and may find that it is done."""

    async def create(self, resource: Resource, given: Object, *where: str, **more: str) -> Object:
        try:
            return await super().create(resource, given, *where, **more)
        except ConflictError:
            return given

    async def write(self, request: Request) -> bytes:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await super().write(request)
            except NotFoundError:
                if request.method != "DELETE":
                    raise
                return b"{}"
            except ApiError as error:
                await _pause(error, deadline)

    async def pages(self, *what: Any, **more: Any) -> AsyncGenerator[ListPage, None]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                async for one in super().pages(*what, **more):
                    yield one
                return
            except ApiError as error:
                await _pause(error, deadline)


async def _pause(error: ApiError, deadline: float) -> None:
    if not error.is_outage or time.monotonic() > deadline:
        raise error
    await anyio.sleep(0.1)
