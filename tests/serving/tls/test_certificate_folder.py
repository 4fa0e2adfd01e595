from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from koord_serving.tls import certificate_folder
from koord_serving.tls.certificate_folder import CertificateFolder
from koord_serving.tls.core.certificates import CA_CERT, CERT, KEY, TLS_CERT, TLS_KEY
from koord_serving.tls.server_tls import CertificateError, ServerTls

from tests.support.processes import PATIENCE
from tests.support.serving import issued


def fill(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("certificate", "key", "authority"), [(CERT, KEY, CA_CERT), (TLS_CERT, TLS_KEY, "ca.crt")]
)
def test_files_of_either_name_are_taken(
    tmp_path: Path, certificate: str, key: str, authority: str
) -> None:
    made, tls, told = issued(), ServerTls(), []
    fill(tmp_path, {certificate: made[CERT], key: made[KEY], authority: made[CA_CERT]})
    folder = CertificateFolder(tmp_path, tls, changed=lambda: told.append(1))
    folder.read()
    assert tls.expiry() is not None
    assert folder.bundle == made[CA_CERT]
    folder.read()
    assert told == [1]


def test_without_an_authority_the_bundle_is_not_ours_to_say(tmp_path: Path) -> None:
    made, tls = issued(), ServerTls()
    fill(tmp_path, {TLS_CERT: made[CERT], TLS_KEY: made[KEY]})
    folder = CertificateFolder(tmp_path, tls)
    folder.read()
    assert folder.bundle == b""
    assert tls.expiry() is not None


def test_what_cannot_be_used_leaves_the_one_before(tmp_path: Path) -> None:
    made, other, tls = issued(), issued(), ServerTls()
    folder = CertificateFolder(tmp_path / "certs", tls)
    with pytest.raises(FileNotFoundError, match=f"neither {TLS_CERT} nor {CERT} is there"):
        folder.read()
    fill(tmp_path / "certs", {TLS_CERT: made[CERT], TLS_KEY: made[KEY]})
    folder.read()
    shown = tls.expiry()
    fill(tmp_path / "certs", {TLS_CERT: other[CERT]})
    with pytest.raises(CertificateError, match="the key is not the certificate's"):
        folder.read()
    assert tls.expiry() == shown
    assert sorted(os.listdir(tmp_path / "certs")) == [TLS_CERT, TLS_KEY], "nothing is written"


async def test_a_renamed_link_is_seen_and_files_that_come_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kubelet changes what it mounts of a Secret."""
    monkeypatch.setattr(certificate_folder, "_SECONDS", 0.01)
    first, second, tls = issued(), issued(), ServerTls()
    for name, made in (("..1", first), ("..2", second)):
        fill(tmp_path / name, {TLS_CERT: made[CERT], TLS_KEY: made[KEY], "ca.crt": made[CA_CERT]})
    link = tmp_path / "..data"
    warnings: list[str] = []
    folder = CertificateFolder(link, tls, on_warning=warnings.append)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        running = group.create_task(folder.run())
        while not warnings:
            await asyncio.sleep(0.005)
        link.symlink_to("..1")
        while folder.bundle != first[CA_CERT]:
            await asyncio.sleep(0.005)
        (tmp_path / "..new").symlink_to("..2")
        os.replace(tmp_path / "..new", link)
        while folder.bundle != second[CA_CERT]:
            await asyncio.sleep(0.005)
        running.cancel()
    assert str(link) in warnings[0]
