from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from koord_kube.client import Client, Cluster, Limits

from tests.descheduler.migration.bench import MigrationBench
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE


@pytest.fixture
async def bench() -> AsyncIterator[MigrationBench]:
    limits = Limits(qps=0, answer=PATIENCE, watch=20.0, grace=5.0)
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), limits) as client,
        asyncio.TaskGroup() as group,
    ):
        made = MigrationBench(api, client, group)
        yield made
        await made.stop()
