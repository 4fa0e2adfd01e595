"""Asks all reporter plugins at once, each few seconds, and follows what they send by themselves.

A plugin's last content counts for ``STAY_SECONDS`` after its last answer, as in Katalyst's agent:
it may only restart. What it costs is bounded: the time of an answer, its bytes, and how often
it may send. One that hangs, crashes or lies delays no other, and nothing else in koordlet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from koord_kube.core.token_bucket import TokenBucket
from koord_proto.reporter_plugin_pb2 import DESCRIPTOR, Empty, GetReportContentResponse
from koord_service.error_text import describe_error
from koord_service.logs import get_log

from koordlet.metrics_reporter.plugins.core.contents import Fields, ReportedFields, parse
from koordlet.plugin_watcher.client import PluginCallError, PluginClient
from koordlet.plugin_watcher.clients import PluginClients
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin

KIND, VERSIONS = "ReporterPlugin", ("v1alpha1",)
INTERVAL_SECONDS = 5.0
"""Katalyst's interval."""
DEADLINE_SECONDS = 2.0
STAY_SECONDS = 300.0
"""Katalyst's grace period of a plugin that is gone."""
SETTLE_SECONDS = 10.0
"""Time for plugins to register after koordlet's start, before anything is exported without them."""
MOST_CONTENT = 128 << 10
"""Bytes of an answer: eight of them fit into an object."""
_MESSAGES_PER_SECOND, _MOST_MESSAGES = 1.0, 60
_STREAM_PAUSE, _FLOOD_PAUSE = 5.0, 300.0
_SERVICE = DESCRIPTOR.services_by_name[KIND].full_name
_REQUEST = Empty().SerializeToString()

_log = get_log("koordlet.plugins")


@dataclass(slots=True)
class _Reporter:
    """A plugin's newest content, and the steady time of its last answer."""

    content: GetReportContentResponse
    reported: ReportedFields
    answered_at: float


class ReporterPluginHost:
    """The reporter plugins of this node, and what they report."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._clients = PluginClients(MOST_CONTENT)
        self._names: frozenset[str] = frozenset()
        self._reporters: dict[str, _Reporter] = {}
        self._polled: dict[RegisteredPlugin, bool] = {}
        self._streams: dict[RegisteredPlugin, asyncio.Task[None]] = {}
        self._open: set[RegisteredPlugin] = set()
        self._failing: set[str] = set()
        self._partial: set[str] = set()

    def follow(self, plugins: tuple[RegisteredPlugin, ...]) -> None:
        """Ask these plugins from now on; of one that is not among them nothing counts."""
        self._names = frozenset(plugin.name for plugin in plugins)
        self._clients.follow(plugins)

    def reported(self) -> Mapping[str, Fields] | None:
        """The fields of each plugin that count now; ``None``: plugins may still register."""
        now = self._now()
        if now - self._began < SETTLE_SECONDS:
            return None
        self._reporters = {
            name: reporter
            for name, reporter in self._reporters.items()
            if name in self._names and now - reporter.answered_at < STAY_SECONDS
        }
        return {name: reporter.reported.fields for name, reporter in self._reporters.items()}

    async def run(self) -> None:
        """Ask and follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self.ask_all(group)
                    await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            await self._clients.close()

    async def ask_all(self, group: asyncio.TaskGroup) -> None:
        """Ask all once; streams of new ones are followed in ``group``."""
        clients = dict(await self._clients.connect())
        for gone in self._streams.keys() - clients.keys():
            self._streams.pop(gone).cancel()
            self._open.discard(gone)
        self._polled = {plugin: self._polled.get(plugin, True) for plugin in clients}
        for plugin, client in clients.items():
            if plugin not in self._streams:
                self._streams[plugin] = group.create_task(self._follow_stream(plugin, client))
        await asyncio.gather(*(self._ask(plugin, client) for plugin, client in clients.items()))

    async def _ask(self, plugin: RegisteredPlugin, client: PluginClient) -> None:
        """Ask one; one that has no such method is up to date as long as its stream is open."""
        if not self._polled[plugin]:
            return self._keep_up(plugin)
        try:
            method = f"/{_SERVICE}/GetReportContent"
            said = await client.call(method, _REQUEST, GetReportContentResponse, DEADLINE_SECONDS)
            self._take(plugin, said)
        except PluginCallError as error:
            self._polled[plugin] = not error.unimplemented
            if not (error.unimplemented or error.paused):
                self._note(plugin, str(error))
        except Exception as error:
            # A defect of ours costs this answer alone.
            self._note(plugin, describe_error(error))

    async def _follow_stream(self, plugin: RegisteredPlugin, client: PluginClient) -> None:
        """Take what a plugin sends. Raises nothing."""
        while True:
            pause = _STREAM_PAUSE
            try:
                pause = await self._read_stream(plugin, client)
            except PluginCallError as error:
                if error.unimplemented:
                    return
                if not self._polled.get(plugin, True):
                    self._note(plugin, str(error))
            except Exception as error:
                self._note(plugin, describe_error(error))
            self._open.discard(plugin)
            await asyncio.sleep(pause)

    async def _read_stream(self, plugin: RegisteredPlugin, client: PluginClient) -> float:
        """Read a stream to its end; return the seconds until it is opened again."""
        method = f"/{_SERVICE}/ListAndWatchReportContent"
        budget = TokenBucket(_MESSAGES_PER_SECOND, _MOST_MESSAGES)
        stream = client.stream(method, _REQUEST, GetReportContentResponse)
        async with aclosing(stream) as messages:
            async for said in messages:
                self._open.add(plugin)
                if not budget.allow(self._now()):
                    self._note(plugin, "sends more than a message a second; not read for 5 min")
                    return _FLOOD_PAUSE
                self._take(plugin, said)
        return _STREAM_PAUSE

    def _take(self, plugin: RegisteredPlugin, said: GetReportContentResponse) -> None:
        """Keep a plugin's content; the same one again costs nothing more."""
        known = self._reporters.get(plugin.name)
        if known is not None and known.content == said:
            known.answered_at = self._now()
        else:
            found = parse(said)
            self._reporters[plugin.name] = _Reporter(said, found, self._now())
            log_once(self._partial, plugin.name, "; ".join(found.problems))
        self._failing.discard(plugin.name)

    def _keep_up(self, plugin: RegisteredPlugin) -> None:
        known = self._reporters.get(plugin.name)
        if known is not None and plugin in self._open:
            known.answered_at = self._now()

    def _note(self, plugin: RegisteredPlugin, reason: str) -> None:
        if plugin.name not in self._failing:
            self._failing.add(plugin.name)
            _log.warning("reporter plugin failed", plugin=plugin.name, reason=reason)


def log_once(partial: set[str], plugin: str, reason: str) -> None:
    """Log why fields of a plugin do not count, once until all of them do."""
    if reason and plugin not in partial:
        _log.warning("fields of a reporter plugin left out", plugin=plugin, reason=reason)
    (partial.add if reason else partial.discard)(plugin)
