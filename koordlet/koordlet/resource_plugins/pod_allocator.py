"""Asks plugins about one pod: hints of all resources, their merge, allocations.

All that is asked for a pod that starts takes ``SECONDS`` together, whoever asks and how often: a
runtime drops an NRI plugin after 2 s, and a proxy calls no longer than that. One call takes at
most half of what is left, so that the plugins that do answer are heard. Calls for different pods
run side by side; those for one follow one another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message
from koord_model.allocation import ContainerAllocation, ResourceAllocation, TopologyHint
from koord_model.demand import Demand
from koord_model.keys import CPU
from koord_model.pod import Pod
from koord_proto import resource_plugin_pb2 as pb
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.plugin_watcher.client import PluginCallError
from koordlet.resource_plugins.allocation_store import AllocationStore
from koordlet.resource_plugins.core import requests
from koordlet.resource_plugins.core.answers import parse_allocation, parse_hints
from koordlet.resource_plugins.core.hints import ALIGNED, Hints, TopologyPolicy, merge_hints
from koordlet.resource_plugins.core.requests import ContainerRequests
from koordlet.resource_plugins.plugins import ResourcePlugin, ResourcePlugins
from koordlet.states_informer.state.pod_inventory import PodRecord

SECONDS = 1.5
"""For all plugins and containers of a pod that starts."""
_ANEW_SECONDS = 10.0
"""Time after which a start of the same pod is another one, with time of its own."""

M = TypeVar("M", bound=Message)

_log = get_log("koordlet.resources")


@dataclass(frozen=True, slots=True)
class AllocationPolicy:
    """Merge of hints, for containers or whole pods, and refusal of pods."""

    topology: TopologyPolicy = TopologyPolicy.NONE
    whole_pods: bool = False
    aligned: Sequence[str] = ALIGNED
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class _Subject:
    """A pod that is asked about, until ``deadline`` (the event loop's seconds)."""

    pod: Pod
    demand: Demand
    deadline: float
    hints: Mapping[str, TopologyHint] | None = None
    """Those of the whole pod, if hints are merged so."""


class PodAllocator:
    """Asks ``plugins``, and keeps their answers in ``store``.

    ``find`` waits for a pod's record, ``nodes`` are the machine's NUMA nodes, as bits.
    """

    def __init__(
        self,
        plugins: ResourcePlugins,
        store: AllocationStore,
        find: Callable[[str], Awaitable[PodRecord]],
        nodes: Callable[[], int],
        policy: AllocationPolicy,
        changed: Callable[[], None],
    ) -> None:
        self._plugins = plugins
        self._store = store
        self._find = find
        self._nodes = nodes
        self._policy = policy
        self._changed = changed
        self._begun: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._problems = LogDeduplicator()
        self.asked: dict[str, float] = {}
        """Pods that plugins were asked about, and when last (the event loop's seconds)."""
        self.lost: set[tuple[str, str, str]] = set()
        """Pods' UIDs, containers and resources of which their plugins know nothing any more."""

    async def prepare(self, pod: Pod) -> str:
        """Have a pod's resources allocated while its sandbox waits; return why it may not start.

        That is "" nearly always: what could not be allocated is tried again later.
        """
        required = self._policy.refuses and requests.requires_hint(pod)
        if required and self._plugins.get(CPU) is None:
            return f"no resource plugin allocates {CPU}"
        if not self._plugins.all():
            return ""
        deadline = self._deadline(pod.uid)

        async def allocate() -> str:
            return await self._allocate(await self._find(pod.uid), deadline, starts=True)

        problem = await self._within(pod, deadline, allocate)
        return f"resource plugins: {problem}" if problem and required else ""

    async def repair(self, record: PodRecord) -> bool:
        """Allocate what a pod that runs lacks; return whether it lacks nothing any more."""
        deadline = asyncio.get_running_loop().time() + SECONDS
        allocate = partial(self._allocate, record, deadline, starts=False)
        return not await self._within(record.pod, deadline, allocate)

    def forget(self, uid: str) -> None:
        """Forget a pod that has gone."""
        self._begun.pop(uid, None)
        self.asked.pop(uid, None)
        self.lost = {key for key in self.lost if key[0] != uid}
        self._store.remove(uid)

    async def _within(
        self, pod: Pod, deadline: float, allocate: Callable[[], Awaitable[str]]
    ) -> str:
        """Run it alone for its pod, until the deadline; return and log what went wrong."""
        lock = self._locks.setdefault(pod.uid, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline), lock:
                problem = await allocate()
        except TimeoutError:
            problem = f"not done within {SECONDS:g} s"
        except LookupError as error:
            problem = str(error)
        except Exception as error:
            # A defect of ours: no pod is to suffer for it.
            problem = f"defect: {describe_error(error)}"
        finally:
            if not lock.locked():
                self._locks.pop(pod.uid, None)
        if problem and self._problems.is_new(pod.uid, problem):
            _log.warning("resources not allocated", pod=pod.full_name, reason=problem)
        return problem

    def _deadline(self, uid: str) -> float:
        """The end of the time for a pod's start, which began with the first call about it."""
        now = asyncio.get_running_loop().time()
        for other in [key for key, at in self._begun.items() if now - at > _ANEW_SECONDS]:
            del self._begun[other]
        return self._begun.setdefault(uid, now) + SECONDS

    async def _allocate(self, record: PodRecord, deadline: float, *, starts: bool) -> str:
        """Allocate for all containers in turn: those that start later see what others have."""
        demand = record.demand
        if demand is None or requests.is_skipped(record.pod, demand):
            return ""
        subject = _Subject(record.pod, demand, deadline)
        problems: dict[str, None] = {}
        for container in requests.containers(record.pod, demand):
            if not starts and container.kind == pb.INIT:
                continue  # it has ended, or runs with what it was given
            missing = self._missing(record.pod.uid, container, starts)
            if not missing:
                continue
            self.asked[record.pod.uid] = asyncio.get_running_loop().time()
            if subject.hints is None and self._merges and self._policy.whole_pods:
                subject = await self._with_pod_hints(subject, problems)
            await self._allocate_container(subject, container, missing, problems)
        return "; ".join(problems)

    @property
    def _merges(self) -> bool:
        return self._policy.topology is not TopologyPolicy.NONE

    def _missing(
        self, uid: str, container: ContainerRequests, starts: bool
    ) -> tuple[ResourcePlugin, ...]:
        """Plugins of resources that a container lacks, or may lack since it starts anew."""
        known = self._known(uid, container.name)
        found = []
        for resource, (_, amount) in container.resources.items():
            plugin, has = self._plugins.get(resource), known.get(resource)
            if plugin is None:
                continue
            lacks = has is None or (starts and not has.scalar)
            lacks |= has is not None and has.scalar and has.quantity < amount
            if lacks or (uid, container.name, resource) in self.lost:
                found.append(plugin)
        return tuple(found)

    def _known(self, uid: str, container: str) -> ContainerAllocation:
        return self._store.current.get(uid, {}).get(container, {})

    async def _allocate_container(
        self,
        subject: _Subject,
        container: ContainerRequests,
        missing: Iterable[ResourcePlugin],
        problems: dict[str, None],
    ) -> None:
        hints = subject.hints
        if hints is None:
            hints = await self._container_hints(subject, container, missing, problems)
        calls = [
            self._ask(subject, plugin, container, hints.get(plugin.resource), problems)
            for plugin in missing
        ]
        allocated = [answer for answer in await asyncio.gather(*calls) if answer is not None]
        if not allocated:
            return
        found = {name: given for answer in allocated for name, given in answer.items()}
        if self._store.put(subject.pod.uid, container.name, found):
            self._changed()
        else:
            problems[f"{container.name}: no room for more allocations"] = None

    async def _ask(
        self,
        subject: _Subject,
        plugin: ResourcePlugin,
        container: ContainerRequests,
        hint: TopologyHint | None,
        problems: dict[str, None],
    ) -> dict[str, ResourceAllocation] | None:
        request = requests.container_request(subject.pod, container, plugin.resource, hint)
        answer = await self._call(
            subject, plugin, "Allocate", request, pb.ResourceAllocationResponse, problems
        )
        if answer is None:
            return None
        found, ignored = parse_allocation(answer.allocation_result, self._nodes())
        problems.update(dict.fromkeys(f"{plugin.resource}: {line}" for line in ignored))
        self.lost.discard((subject.pod.uid, container.name, plugin.resource))
        # One that allocates nothing has been asked, too.
        return {plugin.resource: ResourceAllocation(), **found}

    async def _container_hints(
        self,
        subject: _Subject,
        container: ContainerRequests,
        missing: Iterable[ResourcePlugin],
        problems: dict[str, None],
    ) -> Mapping[str, TopologyHint]:
        """Ask for hints, beside those of what the container has, and merge them."""
        if not self._merges:
            return {}
        known = self._known(subject.pod.uid, container.name)
        hints: dict[str, Hints | None] = {
            name: given.hints for name, given in known.items() if given.hints
        }
        asked = [plugin for plugin in missing if plugin.is_aligned]
        calls = [
            self._call(
                subject,
                plugin,
                "GetTopologyHints",
                requests.container_request(subject.pod, container, plugin.resource),
                pb.ResourceHintsResponse,
                problems,
            )
            for plugin in asked
        ]
        hints |= self._parsed(asked, await asyncio.gather(*calls), problems)
        return self._merged(f"container {container.name}", hints, problems)

    async def _with_pod_hints(self, subject: _Subject, problems: dict[str, None]) -> _Subject:
        """Ask for hints of the whole pod, and merge them."""
        wanted = requests.requested(subject.demand.requests)
        asked = [plugin for plugin in self._plugins.all() if plugin.is_aligned]
        asked = [plugin for plugin in asked if plugin.resource in wanted]
        calls = [
            self._call(
                subject,
                plugin,
                "GetPodTopologyHints",
                requests.pod_request(subject.pod, subject.demand, plugin.resource),
                pb.PodResourceHintsResponse,
                problems,
            )
            for plugin in asked
        ]
        hints = self._parsed(asked, await asyncio.gather(*calls), problems)
        return replace(subject, hints=self._merged("the pod", hints, problems))

    def _parsed(
        self,
        plugins: Sequence[ResourcePlugin],
        answers: Sequence[pb.ResourceHintsResponse | pb.PodResourceHintsResponse | None],
        problems: dict[str, None],
    ) -> dict[str, Hints | None]:
        """The hints of each resource; one whose plugin does not answer has no preference."""
        found: dict[str, Hints | None] = {}
        for plugin, answer in zip(plugins, answers, strict=True):
            if answer is not None:
                hints, line = parse_hints(answer.resource_hints, plugin.resource, self._nodes())
                found[plugin.resource] = hints
                problems.update({f"{plugin.resource}: {line}": None} if line else {})
        return found

    def _merged(
        self, what: str, hints: Mapping[str, Hints | None], problems: dict[str, None]
    ) -> Mapping[str, TopologyHint]:
        policy = self._policy
        merged = merge_hints(policy.topology, self._nodes(), hints, policy.aligned)
        if not merged.admitted:
            names = ", ".join(sorted(hints)) or "anything"
            problems[f"{what}: {policy.topology} admits no NUMA nodes for {names}"] = None
        return merged.hints

    async def _call(
        self,
        subject: _Subject,
        plugin: ResourcePlugin,
        method: str,
        request: Message,
        answer: type[M],
        problems: dict[str, None],
    ) -> M | None:
        left = subject.deadline - asyncio.get_running_loop().time()
        try:
            return await self._plugins.call(plugin, method, request, answer, max(left / 2, 0.01))
        except PluginCallError as error:
            # For how long it is not called yet is another text each time.
            reason = "does not answer" if error.paused else str(error)
            if not (error.unimplemented and method == "GetPodTopologyHints"):
                problems[f"{plugin.resource}: {reason}"] = None
            return None
