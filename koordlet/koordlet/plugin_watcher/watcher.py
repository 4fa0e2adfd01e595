"""Watches a directory of plugins' sockets, and registers the plugins behind them.

The directory is looked at once a second rather than watched: that works on every file system,
also when the directory is made late, or removed and made again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from koord_proto.plugin_registration_pb2 import (
    DESCRIPTOR,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LastingProblems
from koord_service.logs import get_log
from koord_service.write_access import may_everybody_write

from koordlet.plugin_watcher.client import PluginCallError, PluginClient
from koordlet.plugin_watcher.core.registrations import (
    MOST_SOCKETS,
    PluginIntroduction,
    RegisteredPlugin,
    Registrations,
    SocketIdentity,
)

LOOK_SECONDS = 1.0
ASK_SECONDS = 10.0
"""Katalyst's time for a plugin to say who it is; it delays nobody else."""
_MOST_INTRODUCTION = 64 << 10
_SERVICE = DESCRIPTOR.services_by_name["Registration"].full_name

PluginsChanged = Callable[[tuple[RegisteredPlugin, ...]], None]
"""Takes all plugins of a kind, by name, whenever one of them has changed."""

_log = get_log("koordlet.plugins")


class PluginWatcher:
    """The plugins of one directory; whoever wants them follows their kind before ``run``."""

    def __init__(self, directory: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._now = now
        self._versions: dict[str, Sequence[str]] = {}
        self._followers: dict[str, PluginsChanged] = {}
        self._reported: dict[str, tuple[RegisteredPlugin, ...]] = {}
        self._problems = LastingProblems()
        self._found: Mapping[str, SocketIdentity] = {}
        self._registrations = Registrations(self._versions)

    def follow(self, kind: str, versions: Sequence[str], changed: PluginsChanged) -> None:
        """Register plugins of a kind that support one of the versions, the best one first."""
        self._versions[kind] = tuple(versions)
        self._followers[kind] = changed

    @property
    def is_followed(self) -> bool:
        """True if somebody follows a kind of plugins."""
        return bool(self._followers)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                sockets = self._sockets()
                for path in self._registrations.observe(sockets, self._now()):
                    group.create_task(self._register(path, sockets[path]))
                self._report()
                await asyncio.sleep(LOOK_SECONDS)

    def _sockets(self) -> Mapping[str, SocketIdentity]:
        """The sockets of the directory, none where it is not there; dot files do not count."""
        try:
            found = _read_directory(Path(self._directory))
        except FileNotFoundError:
            found = {}
        except OSError as error:
            self._complain(self._directory, error.strerror or str(error))
            # Nothing is concluded from a directory that cannot be read; in one that everybody
            # may write to nobody is trusted.
            return {} if isinstance(error, PermissionError) else self._found
        self._found = found
        more = len(found) - MOST_SOCKETS
        self._complain(
            self._directory,
            f"has {more} sockets too many; at most {MOST_SOCKETS} count" if more > 0 else "",
        )
        return found

    async def _register(self, path: str, identity: SocketIdentity) -> None:
        """Ask a socket who it is, register it, and let it know."""
        client = PluginClient(path, most_bytes=_MOST_INTRODUCTION)
        failure = "was not asked to the end"
        try:
            failure = await self._introduce(client, path, identity)
        except PluginCallError as error:
            failure = str(error)
        except Exception as error:
            # A defect of koordlet: other plugins are registered all the same.
            failure = describe_error(error)
        finally:
            if failure:
                self._registrations.failed(path, identity, failure, self._now())
            await client.close()
        self._report()

    async def _introduce(self, client: PluginClient, path: str, identity: SocketIdentity) -> str:
        """Register what answers; return why it is refused, "" if it is not."""
        info = await client.call(
            f"/{_SERVICE}/GetInfo", InfoRequest().SerializeToString(), PluginInfo, ASK_SECONDS
        )
        said = PluginIntroduction(
            info.type, info.name, info.endpoint, tuple(info.supported_versions)
        )
        reason = self._registrations.register(path, identity, said)
        self._report()
        status = RegistrationStatus(plugin_registered=not reason, error=reason)
        await client.call(
            f"/{_SERVICE}/NotifyRegistrationStatus",
            status.SerializeToString(),
            RegistrationStatusResponse,
            ASK_SECONDS,
        )
        return reason

    def _report(self) -> None:
        """Hand on what has changed, and log what is wrong once."""
        for kind, changed in self._followers.items():
            now, before = self._registrations.plugins(kind), self._reported.get(kind, ())
            if now == before:
                continue
            self._reported[kind] = now
            _log_changes(before, now)
            changed(now)
        problems = self._registrations.problems()
        self._problems.keep({*problems, self._directory})
        for path, reason in problems.items():
            self._complain(path, reason)

    def _complain(self, path: str, reason: str) -> None:
        if self._problems.is_new(path, reason):
            _log.warning("plugin not registered", socket=path, reason=reason)


def _read_directory(directory: Path) -> dict[str, SocketIdentity]:
    """The sockets by path.

    Raises:
        OSError: it cannot be read, or everybody may write to it.
    """
    if may_everybody_write(directory.stat()):
        raise PermissionError(
            errno.EPERM, "everybody may write to it, and so act for plugins; chmod o-w"
        )
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.isprintable():
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                found[entry.path] = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return found


def _log_changes(before: tuple[RegisteredPlugin, ...], now: tuple[RegisteredPlugin, ...]) -> None:
    known = {plugin.name: plugin for plugin in before}
    for plugin in now:
        if plugin != known.pop(plugin.name, None):
            word = "plugin registered" if plugin.connected else "plugin disconnected"
            _log.info(word, kind=plugin.kind, plugin=plugin.name, socket=plugin.endpoint)
    for plugin in known.values():
        _log.info("plugin forgotten", kind=plugin.kind, plugin=plugin.name)
