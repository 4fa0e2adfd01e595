from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from koord_kube.credentials import Anonymous, TokenFile, server_context

from tests.support.certificates import Certificates


async def test_a_token_is_read_again_after_a_minute_and_when_it_is_refused(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "token", 0.0
    path.write_text("one\n")
    token = TokenFile(path, monotonic=lambda: now)
    assert await token.header() == "Bearer one"
    path.write_text("two\n")
    now = 59.0
    assert await token.header() == "Bearer one"
    now = 60.0
    assert await token.header() == "Bearer two"
    path.write_text("three\n")
    assert await token.header(anew=True) == "Bearer three"


@pytest.mark.parametrize("text", ["", "\n", "two words", "line\nfeed", "wört"])
async def test_what_is_no_token(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(OSError, match="is not a valid token") as found:
        await TokenFile(path).header()
    assert str(found.value).startswith(f"{path}: ")
    assert not text.strip() or text.strip() not in str(found.value)


async def test_no_token(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="token: No such file"):
        await TokenFile(tmp_path / "token").header()
    assert await Anonymous().header() == ""


def test_servers_are_verified_and_their_names(certificates: Certificates) -> None:
    context = server_context(certificates.authority)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_an_invalid_authority(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.crt: No such file"):
        server_context(tmp_path / "none.crt")
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(OSError, match=r"ca\.crt: has no CA certificate"):
        server_context(tmp_path / "ca.crt")
