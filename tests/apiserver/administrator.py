"""An administrator who asks the real API server over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.support.admin_client import AdminClient
from tests.support.kube_apiserver import ADMIN, KubeApiserver


@asynccontextmanager
async def administrator(server: KubeApiserver) -> AsyncIterator[AdminClient]:
    """What is made meanwhile is gone afterwards."""
    context = ssl.create_default_context(cafile=str(server.authority))
    connector = aiohttp.TCPConnector(ssl=context)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        made = AdminClient(server.url, session)
        try:
            yield made
        finally:
            await made.clean()
