"""Profile of each pod, and so the profiles of each node. No IO.

Two profiles for one workload: a ServiceProfileDescriptor goes before a ConfigMap, then the one that
is called like the workload, then the older, then by name. The others have no effect, and say so.
A pod that several profiles' workloads select belongs to the first by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from koord_manager.service_profiles.core.candidates import ProfileCandidates, rank
from koord_manager.service_profiles.core.document import ProfileDocument, ProfileSource
from koord_manager.service_profiles.core.entries import Entry, bounded, entries_by_node
from koord_manager.service_profiles.core.explanation import (
    Explanation,
    answer,
    explain,
    unknown,
)
from koord_manager.service_profiles.core.objects import ProfiledWorkload, ServicePod, WorkloadKind

_Place = tuple[str, str]
"""A profile: its source, and its "namespace/name"."""


class WorkloadLookup(NamedTuple):
    """Knowledge of workloads: ``workload`` is ``None`` if it does not exist.

    ``unknown`` says why that, or a namespace's pods, is not known at present; "" if it is.
    """

    workload: Callable[[WorkloadKind, str, str], ProfiledWorkload | None]
    unknown: Callable[[WorkloadKind, str], str]


class ServiceIndex:
    """Kept from change to change; ``refresh`` does what changes made necessary."""

    def __init__(self, cluster: WorkloadLookup) -> None:
        self._cluster = cluster
        self._documents: dict[_Place, ProfileDocument] = {}
        self._pods: dict[str, dict[str, ServicePod]] = {}
        self._candidates: dict[str, ProfileCandidates] = {}
        self._in_force: dict[str, tuple[ProfileDocument, ProfiledWorkload]] = {}
        self._reasons: dict[_Place, str] = {}
        self._waiting: frozenset[str] = frozenset()
        self._service_of: dict[str, dict[str, str]] = {}
        self._members: dict[str, dict[str, ServicePod]] = {}
        self._entries: dict[str, dict[str, Entry]] = {}
        self._on: dict[str, set[str]] = {}
        self._changed: set[tuple[str, str]] = set()
        self._stale: set[str] = set()

    # ---- changes

    def profile_changed(self, place: _Place, now: ProfileDocument | None) -> None:
        """A profile was added, changed or deleted."""
        namespace = place[1].partition("/")[0]
        self._stale.add(namespace)
        if now is None:
            self._documents.pop(place, None)
        else:
            self._documents[place] = now

    def workloads_changed(self, namespace: str) -> None:
        """A workload of a namespace was, or its kind or its pods are known now."""
        self._stale.add(namespace)

    def pod_changed(self, namespace: str, key: str, now: ServicePod | None) -> None:
        """A pod of a namespace with profiles was added, changed or deleted."""
        pods = self._pods.setdefault(namespace, {})
        if now is not None and now.active:
            pods[key] = now
        elif pods.pop(key, None) is None:
            return
        self._changed.add((namespace, key))

    def forget(self, namespace: str) -> None:
        """There are no profiles in a namespace any more."""
        self._pods.pop(namespace, None)
        self._stale.add(namespace)

    # ---- results

    @property
    def kinds(self) -> set[WorkloadKind]:
        """The kinds of workloads that profiles name."""
        return {document.kind for document in self._documents.values() if not document.problem}

    @property
    def namespaces(self) -> set[str]:
        """Namespaces in which there are profiles."""
        return {document.namespace for document in self._documents.values()}

    @property
    def documents(self) -> Mapping[_Place, ProfileDocument]:
        """All profiles."""
        return self._documents

    def reason(self, place: _Place) -> str:
        """Return why a profile has no effect; "" if it has."""
        return self._reasons.get(place, "")

    def refresh(self) -> set[str]:
        """Return the nodes whose profiles are others than before."""
        touched: set[str] = set()
        stale, self._stale = self._stale, set()
        if stale:
            touched |= self._choose(stale)
        changed, self._changed = self._changed, set()
        for namespace in stale:
            known = self._pods.get(namespace, {}).keys()
            placed = self._service_of.get(namespace, {}).keys()
            changed |= {(namespace, key) for key in known | placed}
        for namespace, key in changed:
            touched |= self._place(namespace, key)
        nodes: set[str] = set()
        for service in touched:
            nodes |= self._compare(service)
        return nodes

    def entries(self, node: str, there: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
        """The profiles of a node, and the names of those for which its NodeSLO has no room.

        Those that are not known at present are as they are ``there``.
        """
        found = {key: self._entries[key][node] for key in self._on.get(node, ())}
        kept = {str(entry.get("name")): entry for entry in there}
        found |= {key: kept[key] for key in self._waiting & kept.keys() if key not in found}
        return bounded([found[key] for key in sorted(found)])

    def why(self, key: str, no_room: Iterable[str]) -> Explanation:
        """All that is known of a service's profiles, for people; a descriptor's first.

        ``no_room`` are nodes whose NodeSLOs have no room for them.
        """
        places = [(source.value, key) for source in ProfileSource]
        found = [self._why(place) for place in places if place in self._documents]
        reason = "" if found else unknown(key, self._documents.values())
        return answer(key, found, reason, no_room)

    def _why(self, place: _Place) -> Explanation:
        reason = self.reason(place)
        pods = self._members.get(place[1], {})
        return explain(self._documents[place], reason, () if reason else pods.values())

    # ---- steps

    def _choose(self, namespaces: set[str]) -> set[str]:
        """Decide which profiles of some namespaces are in force; return those to look at."""
        touched = {key for key in self._in_force if key.partition("/")[0] in namespaces}
        self._in_force = {key: found for key, found in self._in_force.items() if key not in touched}
        self._reasons = {
            place: reason
            for place, reason in self._reasons.items()
            if place[1].partition("/")[0] not in namespaces
        }
        waiting = {key for key in self._waiting if key.partition("/")[0] not in namespaces}
        for namespace in namespaces:
            self._candidates.pop(namespace, None)
        mine = [profile for profile in self._documents.values() if profile.namespace in namespaces]
        taken: dict[tuple[WorkloadKind, str, str], ProfileDocument] = {}
        for profile in sorted(mine, key=rank):
            place = (profile.source.value, profile.key)
            about = profile.kind, profile.namespace, profile.workload
            reason = profile.problem
            if not reason and (other := taken.setdefault(about, profile)) is not profile:
                kind = profile.kind.kind
                reason = f"{other.source} {other.key} is for the same {kind}, and goes before"
            if not reason and profile.key in self._in_force:
                reason = f"{self._in_force[profile.key][0].source} {profile.key} goes before"
            if not reason:
                reason = self._resolve(profile, waiting)
            if reason:
                self._reasons[place] = reason
        self._waiting = frozenset(waiting)
        return touched | {key for key in self._in_force if key.partition("/")[0] in namespaces}

    def _resolve(self, profile: ProfileDocument, waiting: set[str]) -> str:
        """Put a profile in force, or return why not."""
        unknown = self._cluster.unknown(profile.kind, profile.namespace)
        if unknown:
            waiting.add(profile.key)
            return unknown
        workload = self._cluster.workload(profile.kind, profile.namespace, profile.workload)
        about = f"{profile.kind} {profile.namespace}/{profile.workload}"
        if workload is None:
            return f"{about} does not exist"
        if workload.problem:
            return f"{about}: {workload.problem}"
        self._in_force[profile.key] = profile, workload
        self._candidates.setdefault(profile.namespace, ProfileCandidates()).add(
            profile.key, workload
        )
        return ""

    def _place(self, namespace: str, key: str) -> set[str]:
        """Give a pod to its service; return the services to look at."""
        pod = self._pods.get(namespace, {}).get(key)
        candidates = self._candidates.get(namespace)
        now = candidates.of(pod.labels) if pod is not None and candidates is not None else ""
        placed = self._service_of.setdefault(namespace, {})
        before = placed.pop(key, "")
        if before and before != now:
            self._members[before].pop(key, None)
        if now and pod is not None:
            placed[key] = now
            self._members.setdefault(now, {})[key] = pod
        elif not placed:
            del self._service_of[namespace]
        return {before, now} - {""}

    def _compare(self, service: str) -> set[str]:
        """Make a service's entries again; return the nodes of which they differ."""
        before, now = self._entries.get(service, {}), self._made(service)
        nodes = {node for node in before.keys() | now.keys() if before.get(node) != now.get(node)}
        for node in before.keys() - now.keys():
            self._on[node].discard(service)
            if not self._on[node]:
                del self._on[node]
        for node in now.keys() - before.keys():
            self._on.setdefault(node, set()).add(service)
        if now:
            self._entries[service] = now
        else:
            self._entries.pop(service, None)
            if not self._members.get(service):
                self._members.pop(service, None)
        return nodes

    def _made(self, service: str) -> dict[str, Entry]:
        if service not in self._in_force:
            return {}
        return entries_by_node(*self._in_force[service], self._members.get(service, {}).values())
