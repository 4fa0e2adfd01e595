from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.support.admin_client import AdminClient
from tests.support.kube_api import KubeApi
from tests.support_selftest.notes import definition


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
async def ask(api: KubeApi) -> AsyncIterator[AdminClient]:
    """An administrator's client of the double."""
    async with aiohttp.ClientSession() as session:
        made = AdminClient(api.url, session)
        await made.define(definition())
        yield made
