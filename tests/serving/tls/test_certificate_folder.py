from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from koord_serving.tls import certificate_folder
from koord_serving.tls.certificate_folder import CertificateFolder
from koord_serving.tls.core import certificates
from koord_serving.tls.core.certificates import CA_CERT, CA_KEY, CERT, KEY, TLS_CERT, TLS_KEY
from koord_serving.tls.server_tls import CertificateError, ServerTls

from tests.support.processes import PATIENCE
from tests.support.serving import NAMES, issued


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
    made, tls, reported = issued(), ServerTls(), []
    fill(tmp_path, {certificate: made[CERT], key: made[KEY], authority: made[CA_CERT]})
    folder = CertificateFolder(tmp_path, tls, changed=lambda: reported.append(1))
    folder.read()
    assert tls.expiry() is not None
    assert folder.bundle == made[CA_CERT]
    folder.read()
    assert reported == [1]


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
        while folder.bundle != second[CA_CERT] + first[CA_CERT]:
            await asyncio.sleep(0.005)
        running.cancel()
    assert str(link) in warnings[0]


class Replica:
    """One manager's folder, and what it shows; time is all replicas'."""

    def __init__(self, path: Path, clock: list[datetime], made: dict[str, bytes]) -> None:
        self.path, self.tls = path, ServerTls()
        self.folder = CertificateFolder(path, self.tls, now=lambda: clock[0])
        self.mount(made)

    def mount(self, made: dict[str, bytes]) -> None:
        fill(self.path, {TLS_CERT: made[CERT], TLS_KEY: made[KEY], "ca.crt": made[CA_CERT]})
        self.folder.read()

    def is_trusted_by(self, other: Replica) -> bool:
        assert self.tls.pair is not None
        shown = x509.load_pem_x509_certificate(self.tls.pair.certificate)
        return any(
            shown.issuer == one.subject and _verifies(shown, one)
            for one in x509.load_pem_x509_certificates(other.folder.bundle)
        )


def _verifies(shown: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        shown.verify_directly_issued_by(authority)
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize("first_to_follow", [0, 1])
def test_no_moment_of_a_change_of_authority_has_a_certificate_that_is_not_trusted(
    tmp_path: Path, first_to_follow: int
) -> None:
    """The leader's bundle is all clients', whichever replica's kubelet was the faster one."""
    old, new = issued(), issued()
    clock = [datetime.now(UTC)]
    both = [Replica(tmp_path / name, clock, old) for name in ("leader", "other")]
    both[first_to_follow].mount(new)
    for minute in range(30):
        clock[0] += timedelta(minutes=1)
        if minute == 3:
            both[1 - first_to_follow].mount(new)
        for replica in both:
            replica.folder.read()
        assert all(one.is_trusted_by(both[0]) for one in both), minute
    assert all(one.tls.pair and one.tls.pair.certificate == new[CERT] for one in both)
    clock[0] += timedelta(hours=24)
    both[0].folder.read()
    assert both[0].folder.bundle == new[CA_CERT]


def test_a_renewed_certificate_of_the_same_authority_is_shown_at_once(tmp_path: Path) -> None:
    made = issued()
    replica = Replica(tmp_path, [datetime.now(UTC)], made)
    plan = certificates.plan(
        {CA_CERT: made[CA_CERT], CA_KEY: made[CA_KEY]}, datetime.now(UTC), NAMES
    )
    assert plan.data is not None
    replica.mount(dict(plan.data))
    assert replica.tls.pair is not None
    assert replica.tls.pair.certificate == plan.data[CERT]
