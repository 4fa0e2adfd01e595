from __future__ import annotations

from koord_manager.serving.certificates import CA_CERT
from koord_manager.serving.self_check import self_check

from tests.support.serving import NAME, issued, serving


async def test_the_self_check_is_what_an_api_server_would_see() -> None:
    trouble = ""
    async with serving(trouble=lambda: trouble) as running:
        port, bundle = running.server.port, running.data[CA_CERT]
        assert await self_check(port, bundle, NAME) == ""
        assert "certificate is not trusted" in await self_check(port, issued()[CA_CERT], NAME)
        assert await self_check(port, b"", NAME) == "", "others say whom to trust"
        assert "certificate is not trusted" in await self_check(port, bundle, "b.example")
        assert await self_check(port, b"nonsense", NAME) != ""
        trouble = "not yet"
        assert await self_check(port, bundle, NAME) == "not yet"
    assert "Connection refused" in await self_check(port, bundle, NAME)
