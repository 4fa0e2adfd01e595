"""Kubeconfig files: the cluster of a context, and as whom it is asked.

The ``kubernetes`` package reads them. What it leaves out, kubectl does; a caller without it would
act as another user: impersonation, a credential plugin that fails, a user that is not there.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

import yaml
from koord_model.excerpt import excerpt
from koord_service.extras import install_command

from koord_kube.client import Cluster
from koord_kube.credentials import Anonymous, server_context

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_HEADER_SIGNS = "!#$&'*+-.^_`|~"  # of names of headers, beside letters and digits
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_REASON = 300  # characters of what a credential plugin says


class KubeconfigError(Exception):
    """It cannot be used; one line with the file and the reason, and without secrets."""


class UnfitUserError(ValueError):
    """The user of a context cannot be asked as; one line, without the file and without secrets."""


class KubeconfigContext(NamedTuple):
    """Files, of which the first that has something counts, and a context, "" the current one."""

    paths: tuple[Path, ...]
    context: str = ""

    def __str__(self) -> str:
        return os.pathsep.join(map(str, self.paths))


class _Loaded(NamedTuple):
    configuration: Configuration
    headers: tuple[tuple[str, str], ...]


async def cluster_of(given: KubeconfigContext) -> Cluster:
    """The cluster of a context. It sends no request yet.

    Raises:
        KubeconfigError: it cannot be used.
        OSError: a file in it cannot be.
    """
    found, headers = await _load(given)
    if not found.verify_ssl:
        raise KubeconfigError(
            f"{given}: insecure-skip-tls-verify is not supported; give certificate-authority"
        )
    encrypted = found.host.startswith("https://")
    header = _header(found)
    if header and not (encrypted or _is_loopback(found.host)):
        raise KubeconfigError(
            f"{given}: a token is not sent over plain HTTP, which shows it to others; give the "
            "cluster an https:// server, or the user no token"
        )
    return Cluster(
        found.host.rstrip("/"),
        KubeconfigToken(given, header) if header else Anonymous(),
        _context(found) if encrypted else None,
        found.tls_server_name,
        found.proxy,
        partial(_context, found) if encrypted else None,
        headers,
    )


class KubeconfigToken:
    """The token of a kubeconfig file, or of the program or provider that is named there.

    All of it is done again when the token is refused.
    """

    def __init__(self, given: KubeconfigContext, header: str) -> None:
        self._given = given
        self._header = header

    async def header(self, *, anew: bool = False) -> str:
        if anew:
            try:
                self._header = _header((await _load(self._given)).configuration)
            except KubeconfigError as error:
                raise OSError(str(error)) from None
        return self._header


def impersonation(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The headers that ask for another user's rights ("as" and its companions).

    Raises:
        UnfitUserError: groups, a UID or extras without a user, or values that are none.
    """
    name, uid = _text(user, "as"), _text(user, "as-uid")
    groups = [_value("as-groups", group) for group in user.get("as-groups") or []]
    extra = user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise UnfitUserError("as-uid, as-groups or as-user-extra without as")
        return ()
    found = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        found.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        header = f"Impersonate-Extra-{quote(_value('as-user-extra', key), safe=_HEADER_SIGNS)}"
        found += ((header, _value("as-user-extra", value)) for value in values or [])
    return tuple(found)


def _text(user: Mapping[str, Any], field: str) -> str:
    given = user.get(field)
    return "" if given is None else _value(field, given)


def _value(field: str, given: object) -> str:
    """Return a valid value of a header; the rest of another one would be a header of its own."""
    if not isinstance(given, str) or not given.isprintable():
        raise UnfitUserError(f"{field} is {excerpt(str(given))}; expected one line of text")
    return given


def _is_loopback(server: str) -> bool:
    """True if requests to it stay on this machine, as to ``kubectl proxy``."""
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _header(found: Configuration) -> str:
    return str(found.api_key.get("BearerToken", "")).strip()


def _context(found: Configuration) -> ssl.SSLContext:
    context = server_context(Path(found.ssl_ca_cert) if found.ssl_ca_cert else None)
    if found.cert_file:
        _identify(context, found.cert_file, found.key_file or found.cert_file)
    return context


def _identify(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        reason = f" ({error.reason})" if error.reason else ""
        raise KubeconfigError(
            f"{certificate}: is not a valid client certificate with its key{reason}"
        ) from None


async def _load(given: KubeconfigContext) -> _Loaded:
    # Imported late: 20 MB, which a pod never needs.
    try:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException, kube_config
    except ModuleNotFoundError as error:
        lacks = f'the extra "kubeconfig", which reads it, is not installed ({error})'
        run = install_command("kubeconfig")
        raise KubeconfigError(f"{given}: {lacks}; run: {run}") from None

    found = Configuration()
    try:
        paths, context = _there(given)
        merged = kube_config.KubeConfigMerger(os.pathsep.join(paths))  # type: ignore[no-untyped-call]
        loader = kube_config.KubeConfigLoader(  # type: ignore[no-untyped-call]
            config_dict=merged.config, active_context=context or None, config_base_path=None
        )
        user = _user(loader)
        _check_token(user)
        with _said_by_library() as said:
            await loader.load_and_set(found)  # type: ignore[no-untyped-call]
        if "exec" in user and not (_header(found) or found.cert_file):
            reason = " ".join(" ".join(said).split())[:_REASON]
            raise KubeconfigError(f"{given}: the credential plugin failed: {reason}")
        return _Loaded(found, impersonation(user))
    except OSError as error:
        raise KubeconfigError(f"{given}: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise KubeconfigError(f"{given}: line {line}: {error.problem}") from None
    except ConfigException as error:
        # What follows "in" may be a whole user with the token.
        raise KubeconfigError(f"{given}: {str(error).partition(' in ')[0]}") from None
    except UnfitUserError as error:
        raise KubeconfigError(f"{given}: {error}") from None
    except (*_UNREADABLE, yaml.YAMLError) as error:
        raise KubeconfigError(
            f"{given}: is not a valid kubeconfig ({type(error).__name__})"
        ) from None


def _there(given: KubeconfigContext) -> tuple[Sequence[str], str]:
    """The files that there are, and the context: of those that are named the first counts."""
    paths, context = list[str](), given.context
    for path in given.paths:
        if len(given.paths) > 1 and not path.exists():
            continue
        document = yaml.safe_load(path.read_bytes())
        paths.append(str(path))
        context = context or str(document.get("current-context") or "")
    if not paths:
        raise FileNotFoundError(2, "No such file or directory")
    return paths, context


def _user(loader: Any) -> Mapping[str, Any]:
    """The user of the context; the library would ask as nobody where it is not there."""
    name = loader.current_context["context"].get("user")
    user = loader._user  # noqa: SLF001 - there is no other way to what it leaves out
    if name and user is None:
        raise UnfitUserError(f"there is no user {excerpt(str(name))}, which its context names")
    return {} if user is None else dict(user.value)


def _check_token(user: Mapping[str, Any]) -> None:
    token = user.get("token")
    if token is not None and not (isinstance(token, str) and token.strip().isprintable()):
        raise UnfitUserError("the token of its user is not one line of text")


@contextmanager
def _said_by_library() -> Iterator[list[str]]:
    """Collect the library's log lines, which a plugin could write to stderr otherwise."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kubernetes.aio.config.kube_config")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
