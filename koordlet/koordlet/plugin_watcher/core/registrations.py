"""Registered plugins, from the sockets of a directory and what is answered on them. No IO.

1. A socket is asked who it is once it appears, and again after a pause where that failed.
2. A plugin is registered if its kind is followed, its name valid and nobody else's, and a version
   supported.
3. When its socket is gone, it stays for ``GRACE_SECONDS`` as disconnected: it may only restart. A
   plugin of its kind and name that registers meanwhile, on whatever socket, replaces it.

All times are seconds of a steady clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from koord_model.excerpt import excerpt
from koord_service.backoff import exponential

GRACE_SECONDS = 300.0
"""Katalyst's time for a plugin to come back."""
MOST_SOCKETS = 32
"""Sockets of a directory that count; what more there is, is reported."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two tries to register one socket."""
PLUGIN_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
"""A Kubernetes resource's name: plugins of resources have that."""

SocketIdentity = tuple[int, int, int]
"""Distinguishes a socket from another of the same path."""


@dataclass(frozen=True, slots=True)
class PluginIntroduction:
    """A plugin's own words about itself; ``endpoint`` is "" where it serves the same socket."""

    kind: str
    name: str
    endpoint: str = ""
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin; ``endpoint`` is the path of the socket that serves it.

    ``identity`` differs once the plugin has registered again: connections are made anew then.
    ``connected`` is false while its socket is gone.
    """

    kind: str
    name: str
    endpoint: str
    version: str
    identity: SocketIdentity
    connected: bool = True


@dataclass(slots=True)
class _Socket:
    """A socket of the directory. ``again_at`` is infinite while it is asked, or once it is in."""

    identity: SocketIdentity
    again_at: float = float("-inf")
    failures: int = 0
    reason: str = ""
    plugin: tuple[str, str] | None = None


@dataclass(slots=True)
class Registrations:
    """The sockets and plugins of one directory.

    ``versions`` are the supported versions of each kind that is followed.
    """

    versions: Mapping[str, Sequence[str]]
    _sockets: dict[str, _Socket] = field(default_factory=dict)
    _plugins: dict[tuple[str, str], RegisteredPlugin] = field(default_factory=dict)
    _gone_at: dict[tuple[str, str], float] = field(default_factory=dict)

    def plugins(self, kind: str) -> tuple[RegisteredPlugin, ...]:
        """The plugins of a kind by name, disconnected ones included."""
        found = (plugin for plugin in self._plugins.values() if plugin.kind == kind)
        return tuple(sorted(found, key=lambda plugin: plugin.name))

    def problems(self) -> dict[str, str]:
        """Reasons for which sockets are not registered, by path."""
        return {path: socket.reason for path, socket in self._sockets.items() if socket.reason}

    def observe(self, sockets: Mapping[str, SocketIdentity], now: float) -> tuple[str, ...]:
        """Take in the sockets that are there now; return those to be asked."""
        for path in [
            path for path, kept in self._sockets.items() if sockets.get(path) != kept.identity
        ]:
            self._disconnect(self._sockets.pop(path), now)
        for path in sorted(sockets.keys() - self._sockets.keys()):
            if len(self._sockets) >= MOST_SOCKETS:
                break
            self._sockets[path] = _Socket(sockets[path])
        for key in [key for key, at in self._gone_at.items() if now - at >= GRACE_SECONDS]:
            del self._gone_at[key], self._plugins[key]
        due = [path for path, socket in self._sockets.items() if now >= socket.again_at]
        for path in due:
            self._sockets[path].again_at = float("inf")
        return tuple(due)

    def register(self, path: str, identity: SocketIdentity, said: PluginIntroduction) -> str:
        """Register what answered on a socket; return why it is refused, "" if it is not."""
        socket = self._socket(path, identity)
        if socket is None:
            return "the socket is gone"
        key = said.kind, said.name
        if reason := self._refusal(key, said, ours=socket.plugin == key):
            return reason
        version = next(one for one in self.versions[said.kind] if one in said.versions)
        endpoint = said.endpoint or path
        self._plugins[key] = RegisteredPlugin(*key, endpoint, version, identity)
        self._gone_at.pop(key, None)
        socket.plugin, socket.reason = key, ""
        return ""

    def failed(self, path: str, identity: SocketIdentity, reason: str, now: float) -> None:
        """A socket did not register: try again after a pause, longer each time."""
        socket = self._socket(path, identity)
        if socket is not None:
            socket.failures += 1
            socket.again_at = now + exponential(_FIRST_PAUSE, _LONGEST_PAUSE, socket.failures)
            socket.reason = reason

    def _refusal(self, key: tuple[str, str], said: PluginIntroduction, *, ours: bool) -> str:
        if said.kind not in self.versions:
            known = ", ".join(sorted(self.versions))
            return f"its type is {excerpt(said.kind)}; expected one of {known}"
        if not PLUGIN_NAME.fullmatch(said.name):
            return (
                f"its name is {excerpt(said.name)}; expected letters, digits and ._/- (at most 253)"
            )
        if said.endpoint and not said.endpoint.startswith("/"):
            return f"its endpoint is {excerpt(said.endpoint)}; expected an absolute path, or none"
        supported = self.versions[said.kind]
        if not set(supported) & set(said.versions):
            theirs = excerpt(", ".join(said.versions))
            return f"its versions are {theirs}; expected {', '.join(supported)}"
        if key in self._plugins and key not in self._gone_at and not ours:
            return f"another socket has registered a {said.kind} of the name {said.name}"
        return ""

    def _socket(self, path: str, identity: SocketIdentity) -> _Socket | None:
        """The socket, unless it has been replaced since it was asked."""
        socket = self._sockets.get(path)
        return socket if socket is not None and socket.identity == identity else None

    def _disconnect(self, socket: _Socket, now: float) -> None:
        if socket.plugin is not None:
            self._plugins[socket.plugin] = replace(self._plugins[socket.plugin], connected=False)
            self._gone_at[socket.plugin] = now
