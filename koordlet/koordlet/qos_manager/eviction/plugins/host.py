"""Asks all eviction plugins at once, each few seconds; what they answer is only kept.

A plugin has ``DEADLINE_SECONDS`` for all of its answers: one that hangs, crashes or lies delays no
other, and nothing else in koordlet waits for any. It is offered the pods alone that may be evicted
for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from google.protobuf.message import Message
from koord_proto.eviction_plugin_pb2 import (
    DESCRIPTOR,
    GetEvictPodsResponse,
    GetTopEvictionPodsResponse,
    ThresholdMetResponse,
)
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LastingProblems
from koord_service.logs import get_log

from koordlet.plugin_watcher.client import PluginCallError, PluginClient
from koordlet.plugin_watcher.clients import PluginClients
from koordlet.plugin_watcher.core.registrations import RegisteredPlugin
from koordlet.qos_manager.eviction.claims.episodes import ThresholdEpisode, advance
from koordlet.qos_manager.eviction.plugins.core import answers
from koordlet.qos_manager.eviction.plugins.core.answers import PluginAnswer, PluginAnswers
from koordlet.qos_manager.eviction.plugins.core.pods import active_pods, top_of
from koordlet.qos_manager.eviction.plugins.pod_messages import PodMessages
from koordlet.states_informer.state.pod_inventory import PodRecord

KIND = "EvictionPlugin"
VERSIONS = ("v1alpha1",)
INTERVAL_SECONDS = 5.0
"""Katalyst's interval."""
DEADLINE_SECONDS = 2.0
_SERVICE = DESCRIPTOR.services_by_name[KIND].full_name

M = TypeVar("M", bound=Message)

Offer = Callable[[str], Iterable[PodRecord] | None]
"""Function of the pods that are offered to a plugin; ``None`` if it is not to be asked."""

_log = get_log("koordlet.plugins")


class EvictionPluginHost:
    """The eviction plugins of this node; ``keep`` takes their newest answers."""

    def __init__(
        self,
        offer: Offer,
        pods: PodMessages,
        keep: Callable[[PluginAnswers], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offer = offer
        self._pods = pods
        self._keep = keep
        self._now = now
        self._clients = PluginClients()
        self.follow = self._clients.follow
        self._episodes: dict[str, ThresholdEpisode | None] = {}
        self._failing = LastingProblems()

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                await self.ask_all()
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            await self._clients.close()

    async def ask_all(self) -> None:
        """Ask all once, and keep what they answer."""
        clients = await self._clients.connect()
        offers = {
            plugin: {record.pod.uid: record for record in records}
            for plugin in clients
            if (records := self._offer(plugin.name)) is not None
        }
        offered = {uid: record for records in offers.values() for uid, record in records.items()}
        messages = await self._pods.of(offered.values()) if offered else {}
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._ask(plugin, clients[plugin], pods))
                for plugin, records in offers.items()
                for pods in [{uid: messages[uid] for uid in records}]
            ]
        names = {plugin.name for plugin in offers}
        self._episodes = {name: self._episodes.get(name) for name in names}
        self._failing.keep(names)
        self._keep(PluginAnswers(tuple(task.result() for task in tasks)))

    async def _ask(
        self, plugin: RegisteredPlugin, client: PluginClient, pods: Mapping[str, bytes]
    ) -> PluginAnswer:
        """One plugin's answer. Raises nothing: a defect of ours costs this answer alone."""
        began = self._now()
        answer = PluginAnswer(plugin.name, began, offered=len(pods))
        try:
            answer = await self._converse(client, answer, pods)
        except Exception as error:
            answer = replace(answer, problem=describe_error(error))
        # Reasons may alternate: one line for as long as it fails.
        if self._failing.is_new(plugin.name, bool(answer.problem)):
            _log.warning("eviction plugin failed", plugin=plugin.name, reason=answer.problem)
        return answer

    async def _converse(
        self, client: PluginClient, answer: PluginAnswer, pods: Mapping[str, bytes]
    ) -> PluginAnswer:
        """Ask for pods and for the threshold at once, and then for pods that this is about."""
        request = active_pods(pods.values())
        (named, failure), (said, reason) = await asyncio.gather(
            _call(client, "GetEvictPods", request, GetEvictPodsResponse, DEADLINE_SECONDS),
            _call(client, "ThresholdMet", request, ThresholdMetResponse, DEADLINE_SECONDS),
        )
        answer = replace(answer, problem=failure or reason)
        if named is not None:
            answer = answers.with_named(answer, named, pods)
        if said is not None:
            answer = answers.with_threshold(answer, said)
        lasted = self._lasted(answer, None if reason else answer.met is not None)
        if said is None or answer.met is None:
            return answer
        met = replace(answer.met, lasted=lasted)
        answer = replace(answer, met=met)
        if lasted < met.grace_seconds:
            return answer
        about = answers.candidates(said, pods)
        request = active_pods(pods[uid] for uid in about)
        left = max(answer.asked_at + DEADLINE_SECONDS - self._now(), 0.0)
        request += top_of(said.eviction_scope, 1 if met.hard else 0)
        top, reason = await _call(
            client, "GetTopEvictionPods", request, GetTopEvictionPodsResponse, left
        )
        if top is None:
            return replace(answer, problem=answer.problem or reason)
        return answers.with_targets(answer, top, pods)

    def _lasted(self, answer: PluginAnswer, passed: bool | None) -> float:
        """Seconds since a plugin's threshold was first seen to be passed, without a break."""
        now, name = answer.asked_at, answer.plugin
        episode = self._episodes[name] = advance(self._episodes.get(name), passed, now)
        return 0.0 if episode is None else episode.lasted(now)


async def _call(
    client: PluginClient, method: str, request: bytes, answer: type[M], seconds: float
) -> tuple[M | None, str]:
    """Return the answer, or why there is none; "" where the plugin has no such method."""
    try:
        return await client.call(f"/{_SERVICE}/{method}", request, answer, seconds), ""
    except PluginCallError as error:
        return None, "" if error.unimplemented else str(error)
