from __future__ import annotations

import pytest
from koord_serving.admission.self_check import self_check
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.processes import PATIENCE
from tests.support.serving import NAME, issued, serving


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord_serving.admission.self_check._SECONDS", PATIENCE)


async def test_the_self_check_is_what_an_api_server_would_see() -> None:
    problem = ""
    async with serving(problem=lambda: problem) as running:
        at, bundle = (running.server.host, running.server.port), running.data[CA_CERT]
        assert await self_check(*at, bundle, NAME) == ""
        assert "certificate is not trusted" in await self_check(*at, issued()[CA_CERT], NAME)
        assert await self_check(*at, b"", NAME) == "", "others say whom to trust"
        assert "certificate is not trusted" in await self_check(*at, bundle, "b.example")
        assert await self_check(*at, b"nonsense", NAME) != ""
        problem = "not yet"
        assert await self_check(*at, bundle, NAME) == "not yet"
    assert "Connection refused" in await self_check(*at, bundle, NAME)


@pytest.mark.parametrize(
    ("listens", "asked"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.2", "127.0.0.2"), ("::1", "::1")],
)
async def test_it_is_asked_where_it_listens(listens: str | None, asked: str) -> None:
    async with serving(host=listens) as running:
        assert running.server.host == asked
        at = running.server.host, running.server.port
        assert await self_check(*at, running.data[CA_CERT], NAME) == ""
