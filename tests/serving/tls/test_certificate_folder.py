from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest
from koord_serving.tls import certificate_folder
from koord_serving.tls.certificate_folder import CertificateFolder
from koord_serving.tls.core.certificates import CA_CERT, CERT, KEY, TLS_CERT, TLS_KEY
from koord_serving.tls.server_tls import ServerTls

from tests.support.processes import PATIENCE
from tests.support.serving import issued


def fill(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("certificate", "key", "authority"), [(CERT, KEY, CA_CERT), (TLS_CERT, TLS_KEY, "ca.crt")]
)
async def test_files_of_either_name_are_taken(
    tmp_path: Path, certificate: str, key: str, authority: str
) -> None:
    made, tls, told = issued(), ServerTls(), []
    fill(tmp_path, {certificate: made[CERT], key: made[KEY], authority: made[CA_CERT]})
    folder = CertificateFolder(tmp_path, tls, changed=lambda: told.append(1))
    assert await folder.once() == 10.0
    assert tls.expiry() is not None
    assert folder.bundle == made[CA_CERT]
    await folder.once()
    assert told == [1]


async def test_without_an_authority_the_bundle_is_not_ours_to_say(tmp_path: Path) -> None:
    made, tls = issued(), ServerTls()
    fill(tmp_path, {TLS_CERT: made[CERT], TLS_KEY: made[KEY]})
    folder = CertificateFolder(tmp_path, tls)
    await folder.once()
    assert folder.bundle == b""
    assert tls.expiry() is not None


async def test_what_cannot_be_used_is_told_once_and_leaves_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, other, tls = issued(), issued(), ServerTls()
    folder = CertificateFolder(tmp_path / "certs", tls)
    await folder.once()
    await folder.once()
    fill(tmp_path / "certs", {TLS_CERT: made[CERT], TLS_KEY: made[KEY]})
    await folder.once()
    shown = tls.expiry()
    fill(tmp_path / "certs", {TLS_CERT: other[CERT]})
    await folder.once()
    await folder.once()
    assert tls.expiry() == shown
    warned = [one.__dict__["fields"] for one in caplog.records if one.levelno == logging.WARNING]
    assert [str(one["error"]) for one in warned] == [
        "neither tls.crt nor cert.pem is there",
        "the server's certificate cannot be used: the key is not the certificate's",
    ]
    assert sorted(os.listdir(tmp_path / "certs")) == [TLS_CERT, TLS_KEY], "nothing is written"


async def test_a_renamed_link_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kubelet changes what it mounts of a Secret."""
    monkeypatch.setattr(certificate_folder, "_SECONDS", 0.01)
    first, second, tls = issued(), issued(), ServerTls()
    for name, made in (("..1", first), ("..2", second)):
        fill(tmp_path / name, {TLS_CERT: made[CERT], TLS_KEY: made[KEY], "ca.crt": made[CA_CERT]})
    link = tmp_path / "..data"
    link.symlink_to("..1")
    folder = CertificateFolder(link, tls)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(folder.run())
        async with asyncio.timeout(PATIENCE):
            while folder.bundle != first[CA_CERT]:
                await asyncio.sleep(0.005)
            (tmp_path / "..new").symlink_to("..2")
            os.replace(tmp_path / "..new", link)
            while folder.bundle != second[CA_CERT]:
                await asyncio.sleep(0.005)
        running.cancel()
