"""Follows profiles, the workloads that they name and those workloads' pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Handler, Informer
from koord_kube.namespaced_informers import NamespacedInformers, NamespacedObjects
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import CONFIG_MAPS, PODS, SERVICE_PROFILES, Resource
from koord_kube.protocol.selectors import EVERYTHING, label_is
from koord_model.service_profile import MOST_PROFILES

from koord_manager.service_profiles.core import document
from koord_manager.service_profiles.core.document import (
    TYPE_LABEL,
    ProfileDocument,
    ProfileSource,
)
from koord_manager.service_profiles.core.entries import MOST_BYTES, Entry
from koord_manager.service_profiles.core.explanation import Explanation, answer
from koord_manager.service_profiles.core.index import ServiceIndex, WorkloadLookup
from koord_manager.service_profiles.core.objects import (
    ProfiledWorkload,
    ServicePod,
    WorkloadKind,
    read_pod,
    read_workload,
)

GATE = "ServiceProfiles"
NO_PROFILES = (
    f"this manager reads no profiles of services; enable them with --feature-gates={GATE}=true, "
    "and leave serviceprofile among its --controllers"
)
_REFRESH_SECONDS = 1.0
_NAMESPACES_AT_ONCE = 4
"""Those whose pods are given to services in one go: 2,000 pods take 12 ms."""
_OBJECT = msgspec.json.Decoder(Object)


PodSource = Callable[[Handler[ServicePod]], NamespacedObjects[ServicePod]]
"""Given who hears of changes, pods from somebody who follows all of them anyway."""


@dataclass(slots=True)
class _ScopedInformer:
    """An informer that lives as long as some profile needs it."""

    informer: Informer[Any]
    scope: anyio.CancelScope

    async def run(self) -> None:
        with self.scope:
            await self.informer.run()


class ServiceProfileController:
    """Profiles of services for nodes; nothing is written but Events on profiles.

    ``changed`` gets the nodes whose profiles are others than before. Without a ``source`` pods are
    followed here.
    """

    def __init__(
        self,
        api: Api,
        changed: Callable[[set[str]], None],
        recorder: EventRecorder,
        *,
        on_warning: Callable[[str], None],
        pace: ReflectorTiming | None = None,
        source: PodSource | None = None,
    ) -> None:
        self._api = api
        self._nodes_changed = changed
        self._recorder = recorder
        self._on_warning = on_warning
        self._pace = pace
        self._index = ServiceIndex(WorkloadLookup(self._workload, self._unknown))
        self._kinds: dict[WorkloadKind, _ScopedInformer] = {}
        self._pods: NamespacedObjects[ServicePod] = (
            source(self._pod_changed)
            if source is not None
            else NamespacedInformers(
                api,
                PODS,
                decode=read_pod,
                on_change=self._pod_changed,
                on_warning=on_warning,
                timing=pace,
            )
        )
        self._known: set[object] = set()
        self._said: dict[tuple[str, str], str] = {}
        self._left_out: dict[str, list[str]] = {}
        self._ready = False
        self._sources: tuple[Informer[ProfileDocument], ...] = tuple(
            self._source(source) for source in ProfileSource
        )

    @property
    def problem(self) -> str:
        """Reason why profiles may be old, in a line; "" while there is none."""
        informers = (*self._sources, *(scoped.informer for scoped in self._kinds.values()))
        problems = (informer.problem for informer in informers if not informer.absent)
        return next(filter(None, problems), "") or self._pods.problem

    def entries(self, node: str, there: Sequence[Entry]) -> list[Entry]:
        """The profiles of a node; ``there`` are those that its NodeSLO has."""
        if not self._ready:
            return list(there)
        found, left_out = self._index.entries(node, there)
        if left_out != self._left_out.get(node, []):
            self._left_out[node] = left_out
            self._warn_of_room(node, left_out)
        return found

    def _warn_of_room(self, node: str, left_out: Sequence[str]) -> None:
        if not left_out:
            del self._left_out[node]
            return
        names = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
        self._on_warning(
            f"node {node}: no room in its NodeSLO for {len(left_out)} profiles of services "
            f"({names}); at most {MOST_PROFILES}, and {MOST_BYTES >> 10} KiB"
        )

    def why(self, service: str) -> Explanation:
        """Explain a service's profiles to unknown callers."""
        if not self._ready:
            problem = self.problem.partition(": ")[0]
            about = f" ({problem}: the manager's log says why)" if problem else ""
            return answer(service, (), f"profiles of services are not read yet{about}")
        no_room = (node for node, names in self._left_out.items() if service in names)
        return self._index.why(service, no_room)

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as group:
            for informer in self._sources:
                group.start_soon(informer.run)
            for informer in self._sources:
                await informer.wait_known()
            while True:
                self._follow(group)
                is_all = self._notice_news()
                self._refresh()
                self._ready = True  # not before: profiles that are read are not yet in force
                await anyio.sleep(_REFRESH_SECONDS if is_all else 0)

    # ---- following

    def _source(self, source: ProfileSource) -> Informer[ProfileDocument]:
        of_descriptors = source is ProfileSource.DESCRIPTOR

        def decode(raw: bytes) -> ProfileDocument:
            return document.read(_OBJECT.decode(raw), source)

        def on_change(
            key: str, _before: ProfileDocument | None, now: ProfileDocument | None
        ) -> None:
            self._index.profile_changed((source.value, key), now)

        return self._informer(
            SERVICE_PROFILES if of_descriptors else CONFIG_MAPS,
            decode,
            on_change,
            labels=None if of_descriptors else TYPE_LABEL,
            optional=of_descriptors,
        )

    def _informer(
        self,
        resource: Resource,
        decode: Callable[[bytes], Any],
        on_change: Callable[[str, Any, Any], None],
        *,
        labels: tuple[str, str] | None = None,
        optional: bool = False,
    ) -> Informer[Any]:
        return Informer(
            self._api,
            resource,
            label_selector=EVERYTHING if labels is None else label_is(*labels),
            decode=decode,
            on_change=on_change,
            optional=optional,
            on_warning=self._on_warning,
            timing=self._pace,
        )

    def _follow(self, group: TaskGroup) -> None:
        """Follow just the kinds that profiles name, and the pods of their namespaces."""
        kinds, namespaces = self._index.kinds, self._index.namespaces
        for kind in self._kinds.keys() - kinds:
            self._kinds.pop(kind).scope.cancel()
            self._known.discard(kind)
        for namespace in self._pods.namespaces - namespaces:
            self._known.discard(namespace)
            self._index.forget(namespace)
        for kind in kinds - self._kinds.keys():
            made = self._informer(
                kind.resource, read_workload, self._workload_changed, optional=True
            )
            self._kinds[kind] = self._started(group, made)
        self._pods.follow(group, namespaces)

    def _started(self, group: TaskGroup, informer: Informer[Any]) -> _ScopedInformer:
        followed = _ScopedInformer(informer, anyio.CancelScope())
        group.start_soon(followed.run)
        return followed

    def _notice_news(self) -> bool:
        """Look again at what waited for something that is known by now; return if that was all.

        All pods of all namespaces at once would take seconds.
        """
        for kind, followed in self._kinds.items():
            state = kind, followed.informer.absent
            is_known = followed.informer.synced or followed.informer.absent
            if is_known and state not in self._known:
                self._known -= {(kind, True), (kind, False)}
                self._known.add(state)
                self._known -= self._pods.namespaces
        unnoticed = (name for name in self._pods.namespaces if name not in self._known)
        news = list(islice(filter(self._pods.is_known, unnoticed), _NAMESPACES_AT_ONCE))
        for namespace in news:
            self._known.add(namespace)
            self._index.workloads_changed(namespace)
        return len(news) < _NAMESPACES_AT_ONCE

    def _pod_changed(self, key: str, _before: ServicePod | None, now: ServicePod | None) -> None:
        self._index.pod_changed(key.partition("/")[0], key, now)

    def _workload_changed(self, key: str, _before: object, _now: object) -> None:
        namespace = key.partition("/")[0]
        if namespace in self._pods.namespaces:
            self._index.workloads_changed(namespace)

    def _workload(self, kind: WorkloadKind, namespace: str, name: str) -> ProfiledWorkload | None:
        found: ProfiledWorkload | None = self._kinds[kind].informer.objects.get(
            f"{namespace}/{name}"
        )
        return found

    def _unknown(self, kind: WorkloadKind, namespace: str) -> str:
        followed = self._kinds.get(kind)
        for is_known, what in (
            (
                followed is not None and (followed.informer.synced or followed.informer.absent),
                f"objects of {kind}",
            ),
            (self._pods.is_known(namespace), f"pods of {namespace}"),
        ):
            if not is_known:
                return f"the {what} are not known yet; may the manager list and watch them?"
        return ""

    # ---- results

    def _refresh(self) -> None:
        nodes = self._index.refresh()
        if nodes:
            self._nodes_changed(nodes)
        for place, profile in self._index.documents.items():
            reason = self._index.reason(place)
            line = reason or next(iter(profile.lines), "")
            if line and self._said.get(place) != line and not self._is_waiting(profile, reason):
                self._said[place] = line
                self._on_warning(f"{place[0]} {place[1]}: {line}")
                self._recorder.record(
                    profile.reference, "ServiceProfileIgnored", line, warning=True
                )
        for place in self._said.keys() - self._index.documents.keys():
            del self._said[place]

    def _is_waiting(self, profile: ProfileDocument, reason: str) -> bool:
        if not reason or reason == profile.problem:
            return False
        is_new = profile.namespace not in self._known
        return is_new or reason == self._unknown(profile.kind, profile.namespace)
