"""Fills Recommendations: learns from what nodes report, and writes the result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.informer import Handler, Informer
from koord_kube.namespaced_informers import NamespacedInformers, NamespacedObjects
from koord_kube.protocol.api import Api, NotFoundError, Object
from koord_kube.protocol.resources import PODS, RECOMMENDATIONS
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_model.keys import ANNOTATION_RECOMMENDATION_CHECKPOINT
from koord_prediction.amount import ResourceAmount

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_objects.core.nodes import largest_memory
from koord_manager.recommendation.core import pods, reconciler, target
from koord_manager.recommendation.core.pods import RecommendationPod
from koord_manager.recommendation.core.recommender import Recommender
from koord_manager.recommendation.core.reconciler import RecommendationResult
from koord_manager.recommendation.core.target import RecommendationTarget, TargetCandidates
from koord_manager.recommendation.core.usage import PodContainerUsage, pods_usage

Status = Callable[[str], bytes | None]
"""The newest status of a node's NodeMetric, as JSON."""

_Usage = Mapping[tuple[str, str], PodContainerUsage]
"""Usage of pods, by namespace and name."""

_AT_ONCE = 250
"""Pods whose samples are taken in one go, which takes some milliseconds."""

_KEEP_SECONDS = 600.0
"""Interval of writes of learning: no more than that is lost with the leader."""


PodSource = Callable[[Handler[RecommendationPod]], NamespacedObjects[RecommendationPod]]
"""Given who hears of changes, pods from somebody who follows all of them anyway."""


@dataclass(slots=True)
class _TrackedRecommendation:
    """A Recommendation: ``problem`` is why its target is not valid."""

    document: Object
    target: RecommendationTarget | None = None
    problem: str = ""


class RecommendationController:
    """The controller; ``interval`` is between two readings of usage, in seconds.

    ``api`` must write only while this manager leads. Without a ``source`` pods are followed here.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        recommender: Recommender,
        status: Status,
        *,
        on_warning: Callable[[str], None],
        interval: float = 60.0,
        clock: Callable[[], float] = time.time,
        pace: ReflectorTiming | None = None,
        source: PodSource | None = None,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._largest = math.inf
        self._recommender = recommender
        self._status = status
        self._on_warning = on_warning
        self._interval = interval
        self._clock = clock
        self._tracked: dict[str, _TrackedRecommendation] = {}
        self._pods: NamespacedObjects[RecommendationPod] = (
            source(self._pod_changed)
            if source is not None
            else NamespacedInformers(
                api,
                PODS,
                decode=pods.decode,
                on_change=self._pod_changed,
                on_warning=on_warning,
                timing=pace,
            )
        )
        self._changed_namespaces: set[str] = set()
        self._matched: dict[str, Sequence[RecommendationPod]] = {}
        self._seen: dict[str, int] = {}
        self._kept_at: dict[str, float] = {}
        self.loop = ReconcileLoop(
            "recommendation", self._write, on_warning=on_warning, backoff=backoff_of(api)
        )
        self._found: Informer[Object] = Informer(
            api,
            RECOMMENDATIONS,
            decode=msgspec.json.Decoder(Object).decode,
            on_change=self._changed,
            on_warning=on_warning,
            timing=pace,
        )

    @property
    def problem(self) -> str:
        """Reason why recommendations may be old, in a line; "" while there is none."""
        return ("" if self._found.absent else self._found.problem) or self.loop.problem

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._found.run)
            await self._found.wait_synced()
            await self._nodes.wait_synced()
            group.start_soon(self.loop.run)
            while True:
                self._follow(group)
                await self.look()
                await anyio.sleep(self._interval)

    async def look(self) -> None:
        """Learn from what nodes have reported since the last time, then queue all for writing.

        In large clusters that takes seconds: webhooks are answered in between.
        """
        now = self._clock()
        self._largest = largest_memory(self._nodes.objects.values()) or math.inf
        self._matched = await self._match()
        usage = await self._usage(_by_node(self._matched.values()))
        for key, found in list(self._matched.items()):
            for some in range(0, len(found), _AT_ONCE):
                if key in self._matched:  # else it is gone, or is about other pods now
                    self._learn(key, found[some : some + _AT_ONCE], usage, now)
                await anyio.lowlevel.checkpoint()
            if key in self._matched:
                self._learn_kills(key, found, now)
        self._recommender.keep_only(self._tracked.keys())
        self._recommender.forget(now)
        for key in self._tracked:
            self.loop.add(key)

    def _learn(
        self, key: str, found: Sequence[RecommendationPod], usage: _Usage, now: float
    ) -> None:
        samples: list[tuple[str, str, ResourceAmount]] = []
        for pod in found:
            used = usage.get((pod.namespace, pod.name))
            samples += [
                (key, name, container_usage) for name, container_usage in _by_container(pod, used)
            ]
        self._recommender.learn(samples, now)

    def _learn_kills(self, key: str, found: Sequence[RecommendationPod], now: float) -> None:
        """Those of a node whose clock is ahead count when their time has come."""
        kills = (kill for pod in found for kill in pod.kills if kill.at <= now)
        for kill in sorted(kills, key=lambda kill: kill.at):
            self._recommender.killed(key, kill.container, kill.limit, kill.at)

    def _changed(self, key: str, before: Object | None, now: Object | None) -> None:
        if now is None:
            self._tracked.pop(key, None)
            self._kept_at.pop(key, None)
            self._matched.pop(key, None)
            return
        known = self._tracked.get(key)
        if known is not None and before and before.get("spec") == now.get("spec"):
            known.document = now
            return
        self._tracked[key] = _read(now)
        self._matched.pop(key, None)
        if known is None:
            self._restore(key, now)
        else:
            self._recommender.keep_only(self._recommender.workloads() - {key})
        self.loop.add(key)

    def _restore(self, key: str, document: Object) -> None:
        try:
            for name, (learning, model) in reconciler.read(document).items():
                self._recommender.restore(key, name, learning, model, self._clock())
        except ValueError as error:
            self._on_warning(f"recommendations {key}: {error}")
        self._kept_at[key] = self._clock()

    def _follow(self, group: TaskGroup) -> None:
        """Follow the pods of just those namespaces in which there are Recommendations."""
        found = (tracked.target for tracked in self._tracked.values())
        self._pods.follow(group, {target.namespace for target in found if target})

    def _pod_changed(self, key: str, _before: object, _now: object) -> None:
        self._changed_namespaces.add(key.partition("/")[0])

    async def _match(self) -> dict[str, Sequence[RecommendationPod]]:
        """The pods of each target whose namespace's are known.

        They are looked for again where a pod of the namespace, or the target, has changed.
        """
        changed, self._changed_namespaces = self._changed_namespaces, set()
        found: dict[str, tuple[_TrackedRecommendation, Sequence[RecommendationPod]]] = {}
        candidates: dict[str, TargetCandidates] = {}
        for key, tracked in list(self._tracked.items()):
            name = tracked.target.namespace if tracked.target else ""
            if tracked.target is None or not self._pods.is_known(name):
                continue
            if name not in changed and key in self._matched:
                found[key] = tracked, self._matched[key]
                continue
            if name not in candidates:
                candidates[name] = TargetCandidates(tuple(self._pods.of(name).values()))
            found[key] = tracked, candidates[name].matching(tracked.target)
            await anyio.lowlevel.checkpoint()
        # Meanwhile some may have been deleted, or ask for others.
        return {
            key: pods for key, (tracked, pods) in found.items() if self._tracked.get(key) is tracked
        }

    async def _usage(self, pods: Mapping[str, Collection[tuple[str, str]]]) -> _Usage:
        """Return the usage of pods, given by node, whose nodes have reported anew."""
        found: dict[tuple[str, str], PodContainerUsage] = {}
        for node, names in pods.items():
            status = self._status(node)
            # Its hash, as the status itself would stay in memory until the next look.
            if status is None or self._seen.get(node) == hash(status):
                continue
            self._seen[node] = hash(status)
            await anyio.lowlevel.checkpoint()
            try:
                for usage in pods_usage(status, names):
                    found[usage.namespace, usage.name] = usage
            except ValueError as error:
                self._on_warning(f"nodemetrics {node}: {error}")
        for node in self._seen.keys() - pods.keys():
            del self._seen[node]
        return found

    async def _write(self, key: str) -> None:
        tracked = self._tracked.get(key)
        if tracked is None or (tracked.target is not None and key not in self._matched):
            return  # the next check shows it
        now, namespace = self._clock(), key.partition("/")[0]
        before = reconciler.status_before(tracked.document)
        status = reconciler.status(self._finding(key, tracked, now), before, now)
        name = tracked.document["metadata"]["name"]
        try:
            if reconciler.differs(before, status):
                change = {"status": status}
                await self._api.patch(RECOMMENDATIONS, name, change, namespace, "status")
            if now - self._kept_at.get(key, now) >= _KEEP_SECONDS:
                checkpoint = reconciler.encode_checkpoints(self._recommender.checkpoints(key))
                annotations = {ANNOTATION_RECOMMENDATION_CHECKPOINT: checkpoint}
                meta = {"metadata": {"annotations": annotations}}
                await self._api.patch(RECOMMENDATIONS, name, meta, namespace)
                self._kept_at[key] = now
        except NotFoundError:
            return  # it is gone, which the informer will hear of

    def _finding(
        self, key: str, tracked: _TrackedRecommendation, now: float
    ) -> RecommendationResult:
        if tracked.target is None:
            return RecommendationResult(problem=tracked.problem)
        found = self._matched[key]
        containers = sorted({name for pod in found for name in pod.requests})
        return RecommendationResult(
            self._recommender.advise(key, now, containers, self._largest),
            len(found),
            self._recommender.history(key, now),
            self._recommender.policy.least_history,
        )


def _by_node(
    matched: Iterable[Sequence[RecommendationPod]],
) -> dict[str, set[tuple[str, str]]]:
    """Namespaces and names of pods by their nodes; those that have none are left out."""
    found: dict[str, set[tuple[str, str]]] = {}
    for pods_of_one in matched:
        for pod in pods_of_one:
            if pod.node:
                found.setdefault(pod.node, set()).add((pod.namespace, pod.name))
    return found


def _read(document: Object) -> _TrackedRecommendation:
    namespace = document["metadata"].get("namespace", "")
    try:
        return _TrackedRecommendation(document, target.parse(document, namespace))
    except ValueError as error:
        return _TrackedRecommendation(document, problem=str(error))


def _by_container(
    pod: RecommendationPod, used: PodContainerUsage | None
) -> Iterator[tuple[str, ResourceAmount]]:
    """The usage of each container: of one that is alone its pod's."""
    if used is None:
        return
    if len(pod.requests) == 1 and pod.started:
        yield next(iter(pod.requests)), used.used
        return
    yield from (
        (name, container) for name, container in used.containers.items() if name in pod.requests
    )
