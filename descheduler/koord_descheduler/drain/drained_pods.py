"""The pods that a drain is about, and what speaks against moving them. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from koord_descheduler.drain.drain_spec import DrainBehavior, DrainSpec, PodRule
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel, KnownPod
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.planner.protection import belongs_to_node, protection

Forbids = Callable[[ObservedPod], str]
"""Reason why migrations never move a pod, in a line; "" if they may."""


def forbid_nothing(_pod: ObservedPod) -> str:
    """Let every pod move."""
    return ""


class DrainedPod(NamedTuple):
    """A pod that has to leave; ``waits`` until it has ended by itself.

    ``obstacle`` is why it may not be moved, in a line; ``is_ordered`` if a rule says that it moves,
    ``is_evicted`` if that needs no place.
    """

    known: KnownPod
    wave: int
    waits: bool = False
    obstacle: str = ""
    is_ordered: bool = False
    is_evicted: bool = False

    @property
    def view(self) -> ObservedPod:
        """The pod."""
        return self.known.view

    @property
    def is_leaving(self) -> bool:
        """True if it ends already."""
        return self.view.deleted is not None


def drained_pods(
    cluster: ClusterModel, spec: DrainSpec, forbids: Forbids = forbid_nothing
) -> list[DrainedPod]:
    """The pods that a drain has to get rid of, in order of their waves.

    Not those that no drain can end (static ones and those of DaemonSets), those that have ended,
    and those that a rule skips.
    """
    on_node = [pod for pod in cluster.pods_on(spec.node) if _may_be_drained(pod.view)]
    found = []
    for pod in on_node:
        rule = _rule_of(pod.view, spec.rules)
        if rule is None:
            wave = _wave_of(pod.view, spec)
            obstacle = _obstacle(cluster, pod.view, forbids)
            found.append(DrainedPod(pod, wave, obstacle=obstacle))
        elif rule.behavior is not DrainBehavior.SKIP:
            wave = _wave_of(pod.view, spec) if rule.order is None else rule.order
            waits = rule.behavior is DrainBehavior.WAIT
            is_evicted = rule.behavior is DrainBehavior.EVICT
            obstacle = protection_of(pod.view) if is_evicted else ""
            found.append(DrainedPod(pod, wave, waits, obstacle, not waits, is_evicted))
    return sorted(found, key=lambda pod: (pod.wave, pod.view.key))


def _may_be_drained(pod: ObservedPod) -> bool:
    return not (pod.has_ended or belongs_to_node(pod))


def _rule_of(pod: ObservedPod, rules: Iterable[PodRule]) -> PodRule | None:
    return next((rule for rule in rules if rule.applies(pod.namespace, pod.labels)), None)


def _wave_of(pod: ObservedPod, spec: DrainSpec) -> int:
    priority = pod.template.priority or 0
    waves = [number for number, wave in enumerate(spec.waves) if wave.priority <= priority]
    return max(waves, default=0)


def protection_of(pod: ObservedPod) -> str:
    """Return why nothing may evict a pod that does not end yet; "" if something may."""
    why = protection(pod) if pod.deleted is None else ""
    return f"it {why}" if why else ""


def _obstacle(cluster: ClusterModel, pod: ObservedPod, forbids: Forbids) -> str:
    if pod.deleted is not None:
        return ""
    if why := protection_of(pod):
        return why
    traits = pod.template
    if traits.claims:
        return f"it has PersistentVolumeClaims: {', '.join(traits.claims)}"
    if traits.is_local:
        return "it has data on the node: an emptyDir or a hostPath"
    if traits.workload is None:
        return "it is bare: nothing makes it anew"
    copies = (copy.view for copy in cluster.copies(traits.workload))
    if sum(not copy.has_ended and copy.deleted is None for copy in copies) < 2:
        return "it is the only replica of its workload"
    return _gang_obstacle(cluster, pod) or forbids(pod)


def _gang_obstacle(cluster: ClusterModel, pod: ObservedPod) -> str:
    """A gang runs as a whole or not at all, so no part of it is moved."""
    others = gang_group(cluster, pod.key).others
    elsewhere = [other.view.key for other in others if other.view.node != pod.node]
    if not elsewhere:
        return ""
    return f"its gang would stop: {min(elsewhere)} is on another node"
