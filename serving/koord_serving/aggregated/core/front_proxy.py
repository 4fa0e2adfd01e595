"""The user for whom the API server's front proxy asks, from its headers. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from koord_kube.protocol.api import Object

from koord_serving.delegated_auth.core.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
)
from koord_serving.tls.core.peer_names import common_names


@dataclass(frozen=True)
class FrontProxy:
    """The proxy that may name a user in headers, and the headers.

    ``ca`` is the PEM of who signs its certificate; ``names`` are the common names it may
    have, none: any.
    """

    ca: str = field(repr=False)
    names: frozenset[str]
    users: tuple[str, ...]
    uids: tuple[str, ...]
    groups: tuple[str, ...]
    extras: tuple[str, ...]

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """True if a client's certificate, verified by ``ca``, is that of a front proxy."""
        if not certificate:
            return False
        return not self.names or bool(self.names & common_names(certificate))

    def user(self, headers: Iterable[tuple[str, str]]) -> User | None:
        """The user; ``None`` if the headers name none."""
        found: dict[str, list[str]] = {}
        for name, value in headers:
            found.setdefault(name.lower(), []).append(value)
        name = _first(found, self.users)
        if not name:
            return None
        groups = [value for header in self.groups for value in found.get(header, ())]
        # As servers of Kubernetes do: the API server itself asks without any group, as
        # system:kube-aggregator, and may ask for discovery for being authenticated alone.
        if name != ANONYMOUS and not {AUTHENTICATED, UNAUTHENTICATED}.intersection(groups):
            groups.append(AUTHENTICATED)
        extra = {
            unquote(header.removeprefix(prefix)): tuple(values)
            for prefix in self.extras
            for header, values in found.items()
            if header.startswith(prefix)
        }
        return User(name, _first(found, self.uids), tuple(groups), tuple(sorted(extra.items())))


def front_proxy(config_map: Object) -> FrontProxy:
    """Of kube-system/extension-apiserver-authentication.

    Raises:
        ValueError: it names no front proxy.
    """
    data = config_map.get("data")
    data = data if isinstance(data, dict) else {}
    ca = data.get("requestheader-client-ca-file")
    if not isinstance(ca, str) or not ca.strip():
        raise ValueError("has no requestheader-client-ca-file; the aggregation layer is off")
    return FrontProxy(
        ca,
        frozenset(_strings(data, "requestheader-allowed-names")),
        _lower(data, "requestheader-username-headers"),
        _lower(data, "requestheader-uid-headers"),
        _lower(data, "requestheader-group-headers"),
        _lower(data, "requestheader-extra-headers-prefix"),
    )


def _first(found: Mapping[str, list[str]], names: Iterable[str]) -> str:
    return next((found[name][0] for name in names if found.get(name)), "")


def _lower(data: Mapping[str, object], key: str) -> tuple[str, ...]:
    return tuple(string.lower() for string in _strings(data, key))


def _strings(data: Mapping[str, object], key: str) -> list[str]:
    """A list in JSON, which is how the API server writes these."""
    given = data.get(key)
    try:
        found = json.loads(given) if isinstance(given, str) and given else []
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"{key} is not a list of names in JSON")
    return [item for item in found if item]
