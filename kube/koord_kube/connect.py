"""Finds the cluster: from the kubeconfig file, else from the pod's service account."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from koord_service.extras import install_command

from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import ACCOUNT, Anonymous, TokenFile, server_context

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration


class ConnectError(Exception):
    """No cluster was found; one line with the reason and what to do."""


async def connect(
    kubeconfig: str = "",
    limits: Limits | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT,
) -> Client:
    """A client of the configured cluster. It sends no request yet.

    Raises:
        ConnectError: the cluster is not configured, or its configuration cannot be used.
    """
    try:
        if kubeconfig:
            cluster = await from_kubeconfig(Path(kubeconfig))
        else:
            cluster = in_cluster(environ, account)
    except OSError as error:
        raise ConnectError(str(error)) from None
    return Client(cluster, limits)


def in_cluster(environ: Mapping[str, str], account: Path = ACCOUNT) -> Cluster:
    """The cluster whose pod this is."""
    # Not by the kubernetes package: it costs 20 MB, reads tokens with their line end,
    # and forgets a token that is refused only after a minute.
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectError(
            "no Kubernetes API: not in a pod (KUBERNETES_SERVICE_HOST and _PORT are not set) "
            "and no --kubeconfig is given"
        )
    for name in ("token", "ca.crt"):
        if not (account / name).is_file():
            raise ConnectError(
                f"{account / name}: not there; the pod needs automountServiceAccountToken, "
                "or give --kubeconfig"
            )
    bracketed = f"[{host}]" if ":" in host else host
    return Cluster(
        f"https://{bracketed}:{port}",
        TokenFile(account / "token"),
        server_context(account / "ca.crt"),
        new_context=partial(server_context, account / "ca.crt"),
    )


async def from_kubeconfig(path: Path) -> Cluster:
    """The cluster of a kubeconfig file's current context."""
    found = await _load(path)
    if not found.verify_ssl:
        raise ConnectError(
            f"{path}: insecure-skip-tls-verify is not supported; give certificate-authority"
        )
    encrypted = found.host.startswith("https://")
    header = _header(found)
    return Cluster(
        found.host.rstrip("/"),
        KubeconfigToken(path, header) if header else Anonymous(),
        _context(found) if encrypted else None,
        found.tls_server_name,
        found.proxy,
        partial(_context, found) if encrypted else None,
    )


def _context(found: Configuration) -> ssl.SSLContext:
    context = server_context(Path(found.ssl_ca_cert) if found.ssl_ca_cert else None)
    if found.cert_file:
        _identify(context, found.cert_file, found.key_file or found.cert_file)
    return context


class KubeconfigToken:
    """The token of a kubeconfig file, or of the program or provider that is named there.

    All of it is done again when the token is refused.
    """

    def __init__(self, path: Path, header: str) -> None:
        self._path = path
        self._header = header

    async def header(self, *, anew: bool = False) -> str:
        if anew:
            try:
                self._header = _header(await _load(self._path))
            except ConnectError as error:
                raise OSError(str(error)) from None
        return self._header


def _header(found: Configuration) -> str:
    return str(found.api_key.get("BearerToken", "")).strip()


def _identify(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConnectError(
            f"{certificate}: is not a valid client certificate with its key ({error.reason})"
        ) from None


async def _load(path: Path) -> Configuration:
    # Imported late: 20 MB, which a pod never needs.
    try:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException, load_kube_config
    except ModuleNotFoundError as error:
        lacks = f'the extra "kubeconfig", which reads it, is not installed ({error})'
        run = install_command("kubeconfig")
        raise ConnectError(f"{path}: {lacks}; run: {run}") from None

    found = Configuration()
    try:
        path.read_bytes()  # noqa: ASYNC240 - small; the library reports only that it is missing
        await load_kube_config(  # type: ignore[no-untyped-call]
            str(path), client_configuration=found, persist_config=False
        )
    except OSError as error:
        raise ConnectError(f"{path}: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConnectError(f"{path}: line {line}: {error.problem}") from None
    except ConfigException as error:
        # What follows "in" may be a whole user with the token.
        raise ConnectError(f"{path}: {str(error).partition(' in ')[0]}") from None
    except (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise ConnectError(f"{path}: is not a valid kubeconfig ({type(error).__name__})") from None
    return found
