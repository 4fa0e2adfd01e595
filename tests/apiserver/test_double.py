"""What the double of the API server does, a real one does too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.apiserver.administrator import administrator
from tests.support.admin_client import AdminClient
from tests.support.kube_apiserver import KubeApiserver
from tests.support_selftest.notes import definition
from tests.support_selftest.test_kube_api import (
    TestDefinitions,
    TestDeletions,
    TestEvictions,
    TestLists,
    TestRefusals,
    TestResizes,
    TestWatches,
    TestWrites,
)

__all__ = [
    "TestDefinitions",
    "TestDeletions",
    "TestEvictions",
    "TestLists",
    "TestRefusals",
    "TestResizes",
    "TestWatches",
    "TestWrites",
]


@pytest.fixture(scope="module", autouse=True)
def _accounts(server: KubeApiserver) -> None:
    """Without a controller that makes it pods have no account, and are refused."""
    server.kubectl("create", "serviceaccount", "default", "-n", "default")


@pytest.fixture
async def ask(server: KubeApiserver) -> AsyncIterator[AdminClient]:
    async with administrator(server) as client:
        await client.define(definition())
        yield client
