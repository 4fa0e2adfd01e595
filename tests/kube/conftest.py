from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from koord_kube.client import Client, Cluster, Limits

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    limits = Limits(qps=0, answer=PATIENCE, watch=20.0, grace=5.0)
    async with Client(Cluster(api.url), limits) as made:
        yield made


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if not HAVE_OPENSSL:
        pytest.skip("needs openssl")
    return make_certificates(tmp_path / "certificates")
