"""An administrator who asks the real API server over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.kube_asking import Asking


@asynccontextmanager
async def administrator(server: KubeApiserver) -> AsyncIterator[Asking]:
    """What is made meanwhile is gone afterwards."""
    context = ssl.create_default_context(cafile=str(server.authority))
    connector = aiohttp.TCPConnector(ssl=context)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        made = Asking(server.url, session)
        try:
            yield made
        finally:
            await made.clean()
