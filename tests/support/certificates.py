"""A throwaway certificate authority, and a server's certificate by it; made by openssl."""

from __future__ import annotations

import atexit
import shutil
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HAVE_OPENSSL = shutil.which("openssl") is not None
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the authority's certificate, and a server's certificate with its key."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(folder: Path, names: str = "IP:127.0.0.1,DNS:localhost") -> Certificates:
    """``names`` are the server's, as in a certificate's subjectAltName.

    Folders of one name have the same ones: each call of openssl is a process.
    """
    shutil.copytree(_made_once(folder.name, names), folder, dirs_exist_ok=True)
    return Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")


@cache
def _made_once(_: str, names: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="koord-test-certificates-"))
    atexit.register(shutil.rmtree, folder)
    # OpenSSL asks for both of an authority where Python is 3.13 or newer.
    signs = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
    authority = _self_signed(folder, "ca", [word for one in signs for word in ("-addext", one)])
    certificate, key = folder / "server.crt", folder / "server.key"
    signed = ["-CA", str(authority), "-CAkey", str(folder / "ca.key")]
    more = ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=CA:FALSE"]
    _request("server", certificate, key, [*signed, *more])
    return folder


def make_self_signed(folder: Path, names: str = "IP:127.0.0.1") -> Certificates:
    """A server's certificate by nobody, as a kubelet makes it at its first start."""
    folder.mkdir(parents=True, exist_ok=True)
    made = _self_signed(folder, "alone", ["-addext", f"subjectAltName={names}"])
    return Certificates(made, made, folder / "alone.key")


def _self_signed(folder: Path, name: str, more: list[str]) -> Path:
    made = folder / f"{name}.crt"
    _request(name, made, folder / f"{name}.key", more)
    return made


def _request(name: str, certificate: Path, key: Path, more: list[str]) -> None:
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run([*command, *files, *more], check=True, capture_output=True)
