"""Reclaims in the background what best-effort containers use above their watermark.

Koordinator's ``wmarkRatio`` and ``wmarkScalePermill`` of ``memoryQOS``, on kernels without
watermarks of cgroups: where a container uses more than limit × wmarkRatio / 100 it is reclaimed
from outside (``memory.reclaim``), until it is limit × wmarkScalePermill / 10000 below that, in
batches of at most 32 MiB. The limit is the lower of ``memory.max`` and ``memory.high``. No more
is asked for than there is page cache, and swap that the pod may use: where a heap fills its
limit, there is nothing to look for.

A batch is not followed by another before its effect was measured.

Needs cgroup v2, Linux 5.19 and --enable-pagecache-collector; for swap the gate
MemoryStatCollector. A container whose use or limit is not known is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_model import memory_qos
from koord_model.memory_qos import MemoryQoS
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    ContainerView,
    Decision,
    Plan,
    PodView,
    StrategyView,
    Term,
)
from koordlet.qos_manager.reclaim import memory_reclaim
from koordlet.qos_manager.reclaim.memory_reclaim import Reclaim

GATE = "MemoryWatermark"
INTERVAL = "reconcile_interval_seconds"

_KERNELS_OWN = "memory.wmark_ratio"
_LIMITS = ("memory.limit_in_bytes", "memory.high")
_MOST_BATCH = 32 << 20
_EFFECT_SECONDS = 3.0
"""A batch has had its effect by then, if the use is not seen to fall before."""
_FORMULA = (
    "high = limit × wmarkRatio / 100; low = max(high − limit × wmarkScalePermill / 10000, 0); "
    "amount = min(use − low, reclaimable, batch) where use > began above else 0"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Classes of containers; their watermarks are in ``memoryQOS`` and pods' annotations."""

    classes: tuple[QoSClass, ...] = (QoSClass.BE,)
    """Pods of these quality classes."""
    batch_bytes: Annotated[int, Meta(ge=1 << 20, le=_MOST_BATCH)] = _MOST_BATCH
    """Of one container at once."""


def settings(slo: NodeSLO) -> Settings:
    """Nothing of it is in Koordinator's sections."""
    return Settings()


class _Marked(NamedTuple):
    """A container with a watermark; memory in bytes."""

    pod: PodView
    container: ContainerView
    asked: MemoryQoS
    limit: int
    use: float
    reclaimable: float


class _Batch(NamedTuple):
    """The use for which the last batch was wanted, and its time by the steady clock."""

    use: float
    at: float

    def is_pending(self, use: float, steady: float) -> bool:
        """True if the use may have been measured before it."""
        return use >= self.use and 0 <= steady - self.at < _EFFECT_SECONDS


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan a batch for each container above its watermark, or not yet below its lower one."""
    why = memory_reclaim.why_not(view)
    if _KERNELS_OWN in view.node.kernel.knobs:
        why = "the kernel has watermarks of its own"
    if why:
        return memory_reclaim.off(why)
    before: Mapping[str, _Batch] = memory if isinstance(memory, dict) else {}
    reclaims, batches = [], {}
    for marked in _all(view, settings):
        group = marked.container.group
        last = before.get(group)
        if last is not None and last.is_pending(marked.use, view.steady):
            reclaims.append(_pending(marked))
            batches[group] = last
            continue
        reclaim = _of_container(marked, settings.batch_bytes, began=last is not None)
        reclaims.append(reclaim)
        if reclaim.amount:
            batches[group] = _Batch(marked.use, view.steady)
    return memory_reclaim.plan(reclaims, "watermark_bytes", batches)


def _pending(marked: _Marked) -> Reclaim:
    group, said = marked.container.group, f"{marked.container.container.name} is being reclaimed"
    return Reclaim(group, 0, Decision(said, pod=marked.pod.name, group=group))


def _of_container(marked: _Marked, batch: int, *, began: bool) -> Reclaim:
    asked, limit = marked.asked, marked.limit
    high = limit * asked.wmark_ratio / 100
    low = max(high - limit * asked.wmark_scale_permill / 10_000, 0.0)
    mark = low if began else high
    name, group, amount = marked.container.container.name, marked.container.group, 0
    outcome = f"{name} is below its memory watermark"
    if marked.use > mark:
        amount = int(min(marked.use - low, marked.reclaimable, batch))
        what = "it is reclaimed" if amount else "there is nothing to reclaim"
        outcome = f"{name} is above its memory watermark: {what}"
    given = (
        Term("limit", limit, "bytes"),
        Term("wmarkRatio", asked.wmark_ratio, "%"),
        Term("wmarkScalePermill", asked.wmark_scale_permill),
        Term("use", marked.use, "bytes"),
        Term("began above", mark, "bytes"),
        Term("reclaimable", marked.reclaimable, "bytes"),
        Term("batch", batch, "bytes"),
        Term("amount", amount, "bytes"),
    )
    return Reclaim(group, amount, Decision(outcome, _FORMULA, given, marked.pod.name, group))


# ---- measurements


def _all(view: StrategyView, settings: Settings) -> Iterator[_Marked]:
    for pod in view.pods:
        if pod.qos not in settings.classes or pod.in_vm or pod.uid in view.evicting:
            continue
        asked, _ = memory_qos.of_pod(pod.record.pod, view.slo.of(pod.qos).memory)
        if asked.enable and asked.wmark_ratio:
            for container in pod.containers:
                yield from _of_pod(view, pod, container, asked)


def _of_pod(
    view: StrategyView, pod: PodView, container: ContainerView, asked: MemoryQoS
) -> Iterator[_Marked]:
    labels = pod.uid, container.container.id
    use = view.latest.value("container_memory_usage_with_page_cache", *labels)
    anonymous = view.latest.value("container_memory_usage", *labels)
    limit = _limit(view, container.group)
    if use is None or anonymous is None or limit is None:
        return
    swap = view.latest.value("pod_memory_stat", pod.uid, "swap_free") or 0.0
    reclaimable = max(use - anonymous, 0.0) + min(anonymous, swap)
    yield _Marked(pod, container, asked, limit, use, reclaimable)


def _limit(view: StrategyView, group: str) -> int | None:
    """The lower of its limits in bytes; ``None`` without one."""
    found = (view.cgroups.now(group, knob) for knob in _LIMITS)
    return min((size for size in found if isinstance(size, int) and size >= 0), default=None)
