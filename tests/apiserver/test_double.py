"""What the double of the API server does, a real one does too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.asking import administrator
from tests.support.certificates import make_certificates
from tests.support.kube_apiserver import KubeApiserver
from tests.support.kube_asking import Asking
from tests.support_selftest.notes import DEFINITION
from tests.support_selftest.test_kube_admission import Hook
from tests.support_selftest.test_kube_definitions import TestDefinitions, TestSchemas
from tests.support_selftest.test_kube_evicting import TestEvictions
from tests.support_selftest.test_kube_following import TestLists, TestWatches
from tests.support_selftest.test_kube_guards import TestHooks, TestReviews, TestStrangers
from tests.support_selftest.test_kube_rules import TestDeletions, TestRefusals, TestWrites

__all__ = [
    "TestDefinitions",
    "TestDeletions",
    "TestEvictions",
    "TestHooks",
    "TestLists",
    "TestRefusals",
    "TestReviews",
    "TestSchemas",
    "TestStrangers",
    "TestWatches",
    "TestWrites",
]


@pytest.fixture(scope="module", autouse=True)
def _accounts(server: KubeApiserver) -> None:
    """Without a controller that makes it pods have no account, and are not let in."""
    server.kubectl("create", "serviceaccount", "default", "-n", "default")


@pytest.fixture
async def ask(server: KubeApiserver) -> AsyncIterator[Asking]:
    async with administrator(server) as asking:
        await asking.define(DEFINITION)
        yield asking


@pytest.fixture(scope="module")
def stranger(server: KubeApiserver) -> str:
    server.kubectl("create", "serviceaccount", "stranger", "-n", "default")
    return server.kubectl("create", "token", "stranger", "-n", "default").strip()


@pytest.fixture
async def hook(server: KubeApiserver, tmp_path: Path) -> AsyncIterator[Hook]:
    near = server.network.near
    made = Hook(make_certificates(tmp_path, f"IP:{near}"))
    made.host = near
    runner = await made.start()
    yield made
    await runner.cleanup()
