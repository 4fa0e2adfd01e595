"""An API server's double, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from koord_kube.client import Client, Cluster

from tests.support.kube_api import KubeApi


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as served:
        yield served


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url)) as made:
        yield made
