"""The webhooks' certificates: an authority of our own, and what it signs. No IO.

Keys are ECDSA P-256: every API server takes them, a handshake signs in a thirtieth of what
RSA-2048 needs, and making one does not hold up the event loop. Those of other kinds that are
there already (Koordinator's are RSA) are used until they are due.

An authority is followed by another without one failed request: first both are trusted, while
the old one signs; a while later the new one signs, while both are trusted; then the old one
goes. What stage it is in is read from the certificates themselves.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SecretData = Mapping[str, bytes]
"""PEM by the keys of the Secret."""

CA_KEY, CA_CERT = "ca-key.pem", "ca-cert.pem"
KEY, CERT = "key.pem", "cert.pem"
TLS_KEY, TLS_CERT = "tls.key", "tls.crt"
NEXT_KEY, NEXT_CERT = "next-ca-key.pem", "next-ca-cert.pem"
OLD_CERT = "old-ca-cert.pem"

CA_NAME = "webhook-cert-ca"
CA_LIFE = timedelta(days=3652)
LIFE = timedelta(days=365)
SKEW = timedelta(minutes=5)
"""Time by which a certificate's life begins before it is made: clocks differ."""

OVERLAP = timedelta(hours=24)
"""From trusting the next authority to its first signature, until every API server has heard;
and from there to the end of trust in the one before, until every replica has followed."""

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_LONGEST_COMMON_NAME = 64
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """Desired data of the Secret, ``None`` where it is right already; and the bundle to trust.

    ``bundle`` is PEM. ``reasons`` are lines for the log, one for each thing that is renewed.
    """

    data: SecretData | None
    bundle: bytes
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Pair:
    """A certificate with its key; ``key`` is ``None`` if it is missing."""

    certificate: x509.Certificate
    key: _PrivateKey | None


def plan(data: SecretData, now: datetime, names: Sequence[str]) -> CertificatePlan:
    """Plan the Secret's data at a time (with a time zone); ``names`` are the server's.

    The first is the one that clients ask for; addresses are names, too.
    """
    reasons: list[str] = []
    made = dict(data)
    authority = _authority(made, now, reasons)
    server = _pair(made, CERT, KEY)
    why = _server_is_due(server, authority, now, names)
    if why:
        if authority.key is None:
            # What is announced cannot be waited for.
            reasons.append("the next authority signs at once: this one's key is missing")
            authority = _promote_next_ca(
                made, _signer(made, NEXT_CERT, NEXT_KEY) or _new_authority(now)
            )
        reasons.append(f"the server's certificate is made anew: {why}")
        made |= _server_documents(_signed(authority, now, names))
    elif made.get(TLS_CERT) != made[CERT] or made.get(TLS_KEY) != made[KEY]:
        reasons.append(f"{TLS_CERT} and {TLS_KEY} are made the same as {CERT} and {KEY}")
        made |= {TLS_CERT: made[CERT], TLS_KEY: made[KEY]}
    _retire_old_ca(made, now, reasons)
    return CertificatePlan(None if made == dict(data) else made, bundle(made, now), tuple(reasons))


def bundle(data: SecretData, now: datetime) -> bytes:
    """The authorities that are trusted: the one that signs, the next, and the one before."""
    found: list[bytes] = []
    for name in (CA_CERT, NEXT_CERT, OLD_CERT):
        certificate = _certificate(data.get(name, b""))
        if certificate is not None and now < certificate.not_valid_after_utc:
            pem = certificate.public_bytes(serialization.Encoding.PEM)
            if pem not in found:
                found.append(pem)
    return b"".join(found)


def problem(certificate: bytes, key: bytes, now: datetime) -> str:
    """Return why a server cannot show this certificate, in a line; "" if it can."""
    found = _certificate(certificate)
    if found is None:
        return "is not a certificate in PEM"
    if not _belongs(found, _private_key(key)):
        return "the key is not the certificate's"
    return _untimely(found, now)


def expiry(certificate: bytes) -> datetime | None:
    """Return when a certificate ends; ``None`` if it is not a certificate."""
    found = _certificate(certificate)
    return found.not_valid_after_utc if found else None


def is_issued_by(certificate: bytes, authorities: Iterable[bytes]) -> bool:
    """True if one of these authorities, each in PEM, has issued a server's certificate.

    It may have done so by those in between, which come with the certificate.
    """
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except _UNREADABLE:
        return False
    known = [found for pem in authorities if (found := _certificate(pem)) is not None]
    return any(_issued(link, authority) for link in chain for authority in known)


# The authority.


def _authority(made: dict[str, bytes], now: datetime, reasons: list[str]) -> _Pair:
    """The authority that signs now; changes ``made`` as its stage asks."""
    found, following = _signer(made, CA_CERT, CA_KEY), _signer(made, NEXT_CERT, NEXT_KEY)
    if not _signs(following, now):
        following = None
    if found is None or _untimely(found.certificate, now):
        # No client trusts it any more, so there is nothing to overlap with.
        why = _untimely(found.certificate, now) if found else "there is none"
        reasons.append(f"the authority is made anew at once: {why}")
        return _promote_next_ca(made, following or _new_authority(now))
    if following is not None:
        if now >= following.certificate.not_valid_before_utc + SKEW + OVERLAP:
            reasons.append("the next authority signs from now on")
            return _promote_next_ca(made, following)
    elif not _signs(found, now):
        why = "its key is missing" if found.key is None else _age(found.certificate, now)
        reasons.append(f"another authority is announced: {why}")
        following = _new_authority(now)
        made |= {NEXT_CERT: _pem(following.certificate), NEXT_KEY: _key_pem(following.key)}
    return found


def _promote_next_ca(made: dict[str, bytes], following: _Pair) -> _Pair:
    before = made.get(CA_CERT, b"")
    if _certificate(before) is not None:
        made[OLD_CERT] = before
    made |= {CA_CERT: _pem(following.certificate), CA_KEY: _key_pem(following.key)}
    made.pop(NEXT_CERT, None)
    made.pop(NEXT_KEY, None)
    return following


def _retire_old_ca(made: dict[str, bytes], now: datetime, reasons: list[str]) -> None:
    """Trust in the authority before this one ends a while after this one's first signature."""
    server = _certificate(made[CERT])
    if OLD_CERT not in made or server is None:
        return
    if now >= server.not_valid_before_utc + SKEW + OVERLAP:
        reasons.append("the authority before this one is no longer trusted")
        del made[OLD_CERT]


def _signer(data: SecretData, certificate: str, key: str) -> _Pair | None:
    """A pair whose certificate may sign others: a server's may not, wherever it was put."""
    pair = _pair(data, certificate, key)
    if pair is None:
        return None
    try:
        found = pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return None
    return pair if found.value.ca else None


def _signs(pair: _Pair | None, now: datetime) -> bool:
    """True if it can sign and has years to do so."""
    if pair is None or pair.key is None or _untimely(pair.certificate, now):
        return False
    return not _old(pair.certificate, now)


def _new_authority(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CA_NAME)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    # The identifier distinguishes two authorities of the same name.
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(name, name, key, now, now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
    )
    return _Pair(builder.sign(key, hashes.SHA256()), key)


# The server's certificate.


def _server_is_due(
    server: _Pair | None, authority: _Pair, now: datetime, names: Sequence[str]
) -> str:
    """Return why the server needs another certificate, "" if it does not."""
    if server is None:
        return "there is none"
    if server.key is None:
        return "its key is missing or another's"
    if not _issued(server.certificate, authority.certificate):
        return "another authority signs"
    if why := _untimely(server.certificate, now):
        return why
    if missing := set(names) - _names(server.certificate):
        return f"it is not for {', '.join(sorted(missing))}"
    # One that ends with its authority stays: the next authority makes the next one.
    if server.certificate.not_valid_after_utc >= authority.certificate.not_valid_after_utc:
        return ""
    return _age(server.certificate, now) if _old(server.certificate, now) else ""


def _signed(authority: _Pair, now: datetime, names: Sequence[str]) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:_LONGEST_COMMON_NAME])])
    issuer = authority.certificate
    until = min(now + LIFE, issuer.not_valid_after_utc)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(authority))
    alternatives = x509.SubjectAlternativeName(list(map(_general_name, names)))
    builder = (
        _builder(subject, issuer.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(alternatives, critical=False)
        .add_extension(issuer_key, critical=False)
    )
    return _Pair(builder.sign(_required(authority.key), hashes.SHA256()), key)


def _server_documents(pair: _Pair) -> dict[str, bytes]:
    certificate, key = _pem(pair.certificate), _key_pem(pair.key)
    return {CERT: certificate, KEY: key, TLS_CERT: certificate, TLS_KEY: key}


def _public(pair: _Pair) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    return _required(pair.key).public_key()


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


# Of both.


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _PrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
    )


def _pair(data: SecretData, certificate: str, key: str) -> _Pair | None:
    found = _certificate(data.get(certificate, b""))
    if found is None:
        return None
    private = _private_key(data.get(key, b""))
    return _Pair(found, private if _belongs(found, private) else None)


def _certificate(pem: bytes) -> x509.Certificate | None:
    try:
        with warnings.catch_warnings():
            # Certificates of others may be odd, and are good for all that.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            found = x509.load_pem_x509_certificate(pem)
            _ = found.extensions, found.public_key()  # both are parsed only on use
    except _UNREADABLE:
        return None
    return found


def _private_key(pem: bytes) -> _PrivateKey | None:
    try:
        found = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) else None


def _belongs(certificate: x509.Certificate, key: _PrivateKey | None) -> bool:
    return key is not None and certificate.public_key() == key.public_key()


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _untimely(certificate: x509.Certificate, now: datetime) -> str:
    if now >= certificate.not_valid_after_utc:
        return f"it ended at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    if now < certificate.not_valid_before_utc:
        return f"it begins only at {certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
    return ""


def _old(certificate: x509.Certificate, now: datetime) -> bool:
    """True if less than a third of its life is left."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now < life / 3


def _age(certificate: x509.Certificate, now: datetime) -> str:
    return f"it ends in {(certificate.not_valid_after_utc - now).days} days"


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: _PrivateKey | None) -> bytes:
    return _required(key).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _required(key: _PrivateKey | None) -> _PrivateKey:
    if key is None:
        raise ValueError("the authority has no key to sign with")
    return key
