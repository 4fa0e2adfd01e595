from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.kube_api import KubeApi


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    if not HAVE_OPENSSL:
        pytest.skip("needs openssl")
    return make_certificates(tmp_path / "certificates")
