from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kubernetes.aio import client

from tests.support.kube_api import KubeApi
from tests.support_selftest.kube_clients import connected


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
