from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from koord_kube.client import Client, Cluster, Limits

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url), Limits(qps=1000.0, answer=PATIENCE)) as made:
        yield made
