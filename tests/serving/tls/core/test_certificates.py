from __future__ import annotations

import base64
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from koord_serving.tls.core import certificates
from koord_serving.tls.core.certificates import (
    CA_CERT,
    CA_KEY,
    CA_LIFE,
    CERT,
    KEY,
    LIFE,
    NEXT_CERT,
    NEXT_KEY,
    OLD_CERT,
    OVERLAP,
    TLS_CERT,
    TLS_KEY,
    SecretData,
    plan,
)

from tests.support.certificates import HAVE_OPENSSL
from tests.support.serving import NAME, NAMES

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY = timedelta(days=1)
KEYS = [CA_CERT, CA_KEY, CERT, KEY, NEXT_CERT, NEXT_KEY, OLD_CERT, TLS_CERT, TLS_KEY]


def first(now: datetime = NOW) -> SecretData:
    made = plan({}, now, NAMES)
    assert made.data is not None
    return made.data


def made_by(now: datetime, data: SecretData) -> SecretData:
    """The data after a round at a time, as it is kept."""
    return plan(data, now, NAMES).data or data


def trusts(bundle: bytes, data: SecretData, now: datetime, name: str = NAME) -> bool:
    """Whether a client with this bundle would speak to the server, by another implementation."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(now)
    leaf = x509.load_pem_x509_certificate(data[CERT])
    try:
        builder.build_server_verifier(x509.DNSName(name)).verify(leaf, [])
    except verification.VerificationError:
        return False
    return not certificates.problem(data[CERT], data[KEY], now)


def test_the_first_secret_has_the_keys_of_koordinators() -> None:
    made = plan({}, NOW, NAMES)
    assert made.data is not None
    assert set(made.data) == {CA_KEY, CA_CERT, KEY, CERT, TLS_KEY, TLS_CERT}
    assert made.data[TLS_KEY] == made.data[KEY]
    assert made.data[TLS_CERT] == made.data[CERT]
    assert made.bundle == made.data[CA_CERT]
    assert len(made.reasons) == 2
    for name in NAMES[:2]:
        assert trusts(made.bundle, made.data, NOW, name)
    assert not trusts(made.bundle, made.data, NOW, "elsewhere.svc")


def test_what_is_made_is_an_authority_and_a_server() -> None:
    data = first()
    authority = x509.load_pem_x509_certificate(data[CA_CERT])
    server = x509.load_pem_x509_certificate(data[CERT])
    assert authority.subject.rfc4514_string() == "CN=webhook-cert-ca"
    assert authority.not_valid_after_utc == NOW + CA_LIFE
    assert server.not_valid_after_utc == NOW + LIFE
    assert server.not_valid_before_utc < NOW
    constraints = server.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    key = serialization.load_pem_private_key(data[KEY], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)


@pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl is not installed")
def test_openssl_agrees_in_its_strict_mode(tmp_path: Path) -> None:
    for name, pem in first(datetime.now(UTC)).items():
        (tmp_path / name).write_bytes(pem)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver"]
    command += ["-verify_hostname", NAME, "-CAfile", str(tmp_path / CA_CERT)]
    subprocess.run([*command, str(tmp_path / CERT)], check=True, capture_output=True)


def test_a_long_namespace_makes_no_common_name_too_long() -> None:
    name = f"koordinator-webhook-service.{'n' * 63}.svc"
    made = plan({}, NOW, [name])
    assert made.data is not None
    assert trusts(made.bundle, made.data, NOW, name)


@pytest.mark.parametrize("later", [timedelta(), DAY, LIFE / 2, LIFE * 0.66])
def test_nothing_changes_while_all_is_well(later: timedelta) -> None:
    data = first()
    assert plan(data, NOW + later, NAMES) == certificates.CertificatePlan(None, data[CA_CERT])


def without(*names: str) -> SecretData:
    return {name: pem for name, pem in first().items() if name not in names}


def server_as_authority() -> SecretData:
    data = first()
    return {CA_CERT: data[CERT], CA_KEY: data[KEY]}


def with_another(names: str) -> dict[str, bytes]:
    another = first()
    return {**first(), **{name: another[name] for name in names.split()}}


@pytest.mark.parametrize(
    ("data", "after", "reason", "authorities"),
    [
        (first(), LIFE * 0.67, "server's certificate is made anew: it ends in 120 days", 1),
        ({**first(), CERT: b""}, 0 * DAY, "there is none", 1),
        ({**first(), CERT: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END"}, 0 * DAY, "none", 1),
        ({**first(), KEY: b"nonsense"}, 0 * DAY, "its key is missing or another's", 1),
        (with_another(KEY), 0 * DAY, "its key is missing or another's", 1),
        (with_another(f"{KEY} {CERT}"), 0 * DAY, "another authority signs", 1),
        (first(NOW - 2 * LIFE), 0 * DAY, "it ended at 2025-11-22T12:00:00Z", 1),
        (first(NOW + LIFE), 0 * DAY, "another authority signs", 2),
        (first(), CA_LIFE + DAY, "the authority is made anew at once: it ended at", 1),
        (without(CA_KEY, CERT), 0 * DAY, "the server's certificate is made anew", 2),
        ({**first(), **server_as_authority()}, 0 * DAY, "the authority is made anew at once", 2),
    ],
)
def test_what_is_of_no_use_is_made_anew_at_once(
    data: SecretData, after: timedelta, reason: str, authorities: int
) -> None:
    renewed = plan({**data, "note": b"ours"}, NOW + after, NAMES)
    assert renewed.data is not None
    assert any(reason in one for one in renewed.reasons), renewed.reasons
    assert trusts(renewed.bundle, renewed.data, NOW + after)
    assert len(x509.load_pem_x509_certificates(renewed.bundle)) == authorities
    assert renewed.data["note"] == b"ours", "what others keep in the Secret stays"
    assert renewed.data[TLS_CERT] == renewed.data[CERT]


def test_another_name_makes_another_certificate() -> None:
    renewed = plan(first(), NOW, [*NAMES, "10.0.0.7", "b.example"])
    assert renewed.data is not None
    assert renewed.reasons[-1].endswith("it is not for 10.0.0.7, b.example")
    assert trusts(renewed.bundle, renewed.data, NOW, "b.example")
    assert plan(renewed.data, NOW, [*NAMES, "10.0.0.7"]).data is None


def test_the_second_name_of_the_pair_follows_the_first() -> None:
    data = first()
    renewed = plan({**data, TLS_CERT: b"old"}, NOW, NAMES)
    assert renewed.data is not None
    assert (renewed.data[TLS_CERT], len(renewed.reasons)) == (data[CERT], 1)


def life_of(data: SecretData, start: datetime, days: int) -> list[tuple[datetime, SecretData]]:
    """Every six hours, what the Secret holds."""
    found = []
    for quarter in range(days * 4):
        now = start + quarter * DAY / 4
        data = made_by(now, data)
        found.append((now, data))
    return found


@pytest.mark.parametrize("lost", ["", CA_KEY, f"{CA_KEY} {NEXT_CERT}"])
def test_an_authority_is_followed_without_a_gap(lost: str) -> None:
    """Clients hear of a bundle, and replicas of a certificate, up to 18 hours late."""
    start = NOW + CA_LIFE * 2 / 3 - DAY if not lost else NOW
    data = made_by(start, first())
    for name in lost.split():
        data = {one: pem for one, pem in data.items() if one != name}
    history = life_of(data, start, 6)
    bundles = [certificates.bundle(kept, now) for now, kept in history]
    assert len({kept[CA_CERT] for _, kept in history}) == 2, "it was not followed"
    assert OLD_CERT not in history[-1][1]
    assert NEXT_CERT not in history[-1][1]
    assert len(x509.load_pem_x509_certificates(bundles[-1])) == 1
    for place, (now, _) in enumerate(history):
        served = [kept for _, kept in history[max(0, place - 3) : place + 1]]
        believed = bundles[max(0, place - 3) : place + 1]
        assert all(trusts(pem, kept, now) for pem in believed for kept in served), now


def test_an_announced_authority_signs_a_day_later() -> None:
    start = NOW + CA_LIFE * 2 / 3 + DAY
    announced = plan(first(), start, NAMES)
    assert announced.data is not None
    assert announced.reasons[0].startswith("another authority is announced: it ends in 12")
    following = announced.data[NEXT_CERT]
    assert plan(announced.data, start + OVERLAP / 2, NAMES).data is None
    switched = plan(announced.data, start + OVERLAP, NAMES)
    assert switched.data is not None
    assert switched.data[CA_CERT] == following
    assert set(x509.load_pem_x509_certificates(switched.bundle)) == set(
        x509.load_pem_x509_certificates(announced.bundle)
    )
    ended = plan(switched.data, start + 2 * OVERLAP, NAMES)
    assert ended.data is not None
    assert ended.bundle == following
    assert plan(ended.data, start + 3 * OVERLAP, NAMES).data is None


def koordinators() -> SecretData:
    """As Koordinator's manager makes them: RSA, and a server's life as long as its authority's."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook-cert-ca")])
    key, server_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    ends = NOW + timedelta(days=3650)
    authority = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")])
    server = (
        x509.CertificateBuilder(name, name, server_key.public_key(), 2, NOW, ends)
        .add_extension(alternatives, critical=False)
        .sign(key, hashes.SHA256())
    )
    pems = {}
    for cert_name, certificate in ((CA_CERT, authority), (CERT, server), (TLS_CERT, server)):
        pems[cert_name] = certificate.public_bytes(serialization.Encoding.PEM)
    for key_name, private in ((CA_KEY, key), (KEY, server_key), (TLS_KEY, server_key)):
        pems[key_name] = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    return pems


def test_koordinators_secret_is_used_until_it_is_due() -> None:
    data = koordinators()
    names = [NAME, "localhost"]
    assert plan(data, NOW + LIFE * 6, names) == certificates.CertificatePlan(None, data[CA_CERT])
    due = NOW + timedelta(days=2500)
    announced = plan(data, due, names).data
    assert announced is not None
    switched = plan(announced, due + OVERLAP, names).data
    assert switched is not None
    assert trusts(certificates.bundle(announced, due), switched, due + DAY)
    named = plan(data, NOW + DAY, [*names, "more.example"])
    assert named.data is not None
    assert named.data[CA_KEY] == data[CA_KEY], "an RSA authority signs as well"


SAMPLES = [first(), first(NOW - LIFE * 0.9), first(NOW - CA_LIFE * 0.7), first(NOW - CA_LIFE * 2)]
POOL = [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
POOL += [pem for sample in SAMPLES for pem in sample.values()]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(POOL) | st.binary(max_size=30)),
    st.sampled_from(SAMPLES),
)
def test_whatever_is_there_a_round_makes_a_server_that_is_trusted(
    changed: dict[str, bytes], sample: SecretData
) -> None:
    data = {**sample, **changed}
    made = plan(data, NOW, NAMES)
    now = made.data or data
    assert trusts(made.bundle, now, NOW)
    assert made.bundle == certificates.bundle(now, NOW)
    assert (made.data is None) == (not made.reasons)
    assert plan(now, NOW, NAMES).data is None, "it comes to rest"


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_certificate_raises_nothing(place: int, value: int) -> None:
    der = bytearray(
        x509.load_pem_x509_certificate(SAMPLES[0][CERT]).public_bytes(serialization.Encoding.DER)
    )
    der[place % len(der)] = value
    body = base64.encodebytes(bytes(der))
    pem = b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"
    assert plan({**SAMPLES[0], CERT: pem}, NOW, NAMES).bundle


def test_problem_says_what_is_wrong() -> None:
    data, other = first(), first()
    assert certificates.problem(data[CERT], data[KEY], NOW) == ""
    assert certificates.problem(b"", data[KEY], NOW) == "is not a certificate in PEM"
    assert "not the certificate's" in certificates.problem(data[CERT], other[KEY], NOW)
    assert "ended at" in certificates.problem(data[CERT], data[KEY], NOW + 2 * LIFE)
    assert certificates.expiry(data[CERT]) == NOW + LIFE
    assert certificates.expiry(b"") is None
