from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from kubernetes.aio import client

from tests.support.kube_api import KubeApi
from tests.support.kube_asking import Asking
from tests.support_selftest.kube_clients import connected
from tests.support_selftest.notes import DEFINITION


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
async def api_client(api: KubeApi) -> AsyncIterator[client.ApiClient]:
    async with connected(api) as made:
        yield made


@pytest.fixture
def core(api_client: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api_client)


@pytest.fixture
def custom(api_client: client.ApiClient) -> client.CustomObjectsApi:
    return client.CustomObjectsApi(api_client)


@pytest.fixture
async def ask(api: KubeApi) -> AsyncIterator[Asking]:
    """An administrator who asks the double over HTTP."""
    async with aiohttp.ClientSession() as session:
        made = Asking(api.url, session)
        await made.define(DEFINITION)
        yield made
