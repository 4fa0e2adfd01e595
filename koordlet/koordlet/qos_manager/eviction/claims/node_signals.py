"""Readings of the signals of thresholds: how far past them the node is. No IO.

What is to be freed::

    memory.available, numa.memory.free   threshold + capacity × free / 100 − available
    cpu.usage                            used − capacity × (threshold − free) / 100
    others                               one pod: how much would help is unknown

A pod frees what it uses. Pressure is the kernel's own average (PSI) of the node, or of all
burstable pods. Katalyst's rules are the models of the later ones, without its counters: a soft
threshold's grace period has their part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from koord_model import katalyst
from koord_model.keys import BATCH_MEMORY, MEMORY, MID_MEMORY
from koord_model.node_info import NodeMemoryInfo, NumaNode
from koord_model.qos import KubeQoS

from koordlet.qos_manager.core.strategy import PodView, StrategyView, Term
from koordlet.qos_manager.eviction.claims import ranking, usage
from koordlet.qos_manager.eviction.claims.node_thresholds import NodeSignal, NodeThreshold
from koordlet.qos_manager.eviction.claims.ranking import ReleaseOfPod

PSI_SECONDS = 30.0
"""Greatest age of a value that is read each 10 s where nothing else is set."""
GIB = float(1 << 30)
_AVAILABLE = (
    "need = threshold + capacity × free / 100 − available where available < threshold else 0"
)

_LEAST_WAITING = 3
_WAITS, _MEAN_WAIT = 1.0, 4.0
"""Percent of its time that a pod waits for memory to count, and that those wait on average."""

RSS_PERCENT = 105.0
"""Katalyst's: of its request, above which a pod's memory is overused."""

_PSI_WORDS = {
    NodeSignal.MEMORY_PRESSURE: "mem",
    NodeSignal.CPU_PRESSURE: "cpu",
    NodeSignal.IO_PRESSURE: "io",
}
_AMOUNTS = {
    NodeSignal.MEMORY_AVAILABLE: usage.MEMORY,
    NodeSignal.NUMA_MEMORY_FREE: usage.MEMORY,
    NodeSignal.CPU_USAGE: usage.CPU,
}
"""Signals whose need is an amount, and what pods free of it."""
_WEIGHTS = _AMOUNTS | {
    NodeSignal.MEMORY_PRESSURE: usage.MEMORY,
    NodeSignal.CLASS_MEMORY_PRESSURE: usage.MEMORY,
    NodeSignal.CPU_PRESSURE: usage.CPU,
    NodeSignal.SYSTEM_LOAD: usage.CPU,
}


class SignalReading(NamedTuple):
    """Value of a signal; ``need`` is 0 while it is not past its threshold.

    ``resource`` and ``unit`` are those of the need.
    """

    need: float
    resource: str
    unit: str
    formula: str
    given: tuple[Term, ...]


def observe(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    """Read the signal of a threshold; ``None`` where it is not known."""
    return _READERS[threshold.signal](view, threshold)


def releases(view: StrategyView, threshold: NodeThreshold) -> ReleaseOfPod:
    """Return the function of each pod's release, in the unit of the need; ``None``: no victim."""
    if threshold.signal is NodeSignal.POD_RSS:
        return lambda pod: 1.0 if (_overuse(view, threshold, pod) or 0.0) > 1 else None
    measure = _AMOUNTS.get(threshold.signal)
    return (lambda _: 1.0) if measure is None else usage.used_by(view, measure)


def weight(view: StrategyView, threshold: NodeThreshold) -> ReleaseOfPod:
    """Return the function that orders pods of the same priority; ``None`` of all if unmeasured."""
    if threshold.signal is NodeSignal.POD_RSS:
        return lambda pod: _overuse(view, threshold, pod)
    measure = _WEIGHTS.get(threshold.signal)
    return usage.used_by(view, measure) if measure else lambda _: None


def _memory_available(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    capacity = usage.capacity(view, usage.MEMORY)
    used = usage.node_use(view, usage.MEMORY)
    if capacity is None or used is None:
        return None
    available = max(capacity - used, 0.0)
    limit = threshold.quantity or capacity * (threshold.percent or 0.0) / 100
    wanted = limit + capacity * threshold.free_percent / 100 - available
    return SignalReading(
        wanted if available < limit else 0.0,
        "memory",
        "bytes",
        _AVAILABLE,
        (
            Term("threshold", limit, "bytes"),
            Term("capacity", capacity, "bytes"),
            Term("free", threshold.free_percent, "%"),
            Term("available", available, "bytes"),
        ),
    )


def _cpu_usage(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    capacity = usage.capacity(view, usage.CPU)
    used = usage.node_use(view, usage.CPU, threshold.window_seconds)
    percent = threshold.percent or 0.0
    if capacity is None or used is None:
        return None
    wanted = used - capacity * max(percent - threshold.free_percent, 0.0) / 100
    return SignalReading(
        wanted if 100 * used > percent * capacity else 0.0,
        "cpu",
        "cores",
        "need = used − capacity × max(threshold − free, 0) / 100"
        " where 100 × used > capacity × threshold else 0",
        (
            Term("used", used, "cores"),
            Term("capacity", capacity, "cores"),
            Term("threshold", percent, "%"),
            Term("free", threshold.free_percent, "%"),
        ),
    )


def _pressure(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    labels = _PSI_WORDS[threshold.signal], threshold.average.value, threshold.degree.value
    found = view.history.windows("node_psi", PSI_SECONDS).get(labels)
    if found is None or not found.points:
        return None
    percent = threshold.percent or 0.0
    return SignalReading(
        1.0 if found.last > percent else 0.0,
        threshold.signal.value,
        "pods",
        "need = 1 where pressure > threshold else 0",
        (Term("pressure", found.last, "%"), Term("threshold", percent, "%")),
    )


def _class_memory_pressure(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    """Pressure of all burstable pods, where several of them wait: one alone is at its own limit."""
    labels = "mem", threshold.average.value, threshold.degree.value
    key = KubeQoS.BURSTABLE.value, *labels
    found = view.history.windows("class_psi", PSI_SECONDS).get(key)
    if found is None or not found.points:
        return None
    pods = view.history.windows("pod_psi", PSI_SECONDS)
    waits = [
        psi.last
        for pod in view.pods
        if pod.kube is KubeQoS.BURSTABLE
        and (psi := pods.get((pod.uid, "mem", "avg10", "some"))) is not None
        and psi.last > _WAITS
    ]
    mean = sum(waits) / len(waits) if waits else 0.0
    percent = threshold.percent or 0.0
    past = found.last > percent and len(waits) >= _LEAST_WAITING and mean >= _MEAN_WAIT
    return SignalReading(
        1.0 if past else 0.0,
        threshold.signal.value,
        "pods",
        "need = 1 where pressure > threshold and pods that wait ≥ least and their mean ≥ least mean"
        " else 0",
        (
            Term("pressure", found.last, "%"),
            Term("threshold", percent, "%"),
            Term("pods that wait", len(waits)),
            Term("least", _LEAST_WAITING),
            Term("their mean", mean, "%"),
            Term("least mean", _MEAN_WAIT, "%"),
        ),
    )


def _numa_memory_free(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    """Free memory of the NUMA node that lacks most; ``None`` where none is known."""
    info = view.latest.info(NodeMemoryInfo)
    readings = [
        reading
        for node in (info.nodes if info else ())
        if (reading := _of_numa_node(view, threshold, node)) is not None
    ]
    return max(readings, key=lambda reading: reading.need, default=None)


def _of_numa_node(
    view: StrategyView, threshold: NodeThreshold, node: NumaNode
) -> SignalReading | None:
    free = view.latest.value("node_numa_memory_free", str(node.id))
    limit = float(threshold.quantity or 0) or node.memory * (threshold.percent or 0.0) / 100
    own = limit or _watermark(view, threshold, str(node.id))
    if free is None or own is None:
        return None
    wanted = own + node.memory * threshold.free_percent / 100 - free
    return SignalReading(
        wanted if free < own else 0.0,
        "memory",
        "bytes",
        _AVAILABLE,
        (
            Term("threshold", own, "bytes"),
            Term("capacity", float(node.memory), "bytes"),
            Term("free", threshold.free_percent, "%"),
            Term("available", free, "bytes"),
            Term("NUMA node", node.id),
        ),
    )


def _watermark(view: StrategyView, threshold: NodeThreshold, node: str) -> float | None:
    """Katalyst's own threshold: a little above the kernel's watermarks.

    Hard: min + 1 GiB, as allocations begin to wait at min. Soft: low + 256 MiB, as the kernel
    begins to reclaim at low; without idle page cache, which it would take first, low counts as a
    GiB more, and as 4 GiB at least.
    """
    names = ("min_watermark", "low_watermark", "inactive_file")
    minimum, low, idle = (view.latest.value(f"node_numa_memory_{name}", node) for name in names)
    if minimum is None or low is None or idle is None:
        return None
    if threshold.hard:
        return minimum + GIB
    if idle < max(4 * GIB, low):
        low = max(4 * GIB, low + GIB)
    return low + GIB / 4


def _pod_rss(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    """Pods that use more memory than they requested; those with another limit say so."""
    found = [_overuse(view, threshold, pod) for pod in ranking.active(view.pods)]
    known = [overuse for overuse in found if overuse is not None]
    if not known:
        return None
    return SignalReading(
        1.0 if max(known) > 1 else 0.0,
        "pods above their request",
        "pods",
        "need = 1 where highest use of a limit > 100 else 0",
        (
            Term("highest use of a limit", 100 * max(known), "%"),
            Term("threshold", threshold.percent or RSS_PERCENT, "%"),
            Term("pods measured", len(known)),
        ),
    )


def _overuse(view: StrategyView, threshold: NodeThreshold, pod: PodView) -> float | None:
    """Memory of a pod by the most that it may use; ``None`` where it is not known, or unlimited."""
    demand, used = pod.demand, view.latest.value(usage.MEMORY.pod_kind, pod.uid)
    if demand is None or used is None or not demand.container_requests:
        return None
    requests = [
        sum(amounts.get(name, 0) for name in (MEMORY, BATCH_MEMORY, MID_MEMORY))
        for amounts in demand.container_requests.values()
    ]
    annotations, usual = pod.record.pod.annotations, (threshold.percent or RSS_PERCENT) / 100
    ratio = katalyst.ratio(annotations, "rss_overuse_threshold", usual)
    if not all(requests) or ratio is None:
        return None
    return used / (sum(requests) * ratio)


def _imagefs(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    of_bytes = threshold.signal is NodeSignal.IMAGEFS_AVAILABLE
    names = ("available", "capacity") if of_bytes else ("inodes_free", "inodes")
    free, capacity = (_last(view, f"node_imagefs_{name}") for name in names)
    if free is None or not capacity:
        return None
    unit = "bytes" if of_bytes else "inodes"
    limit = threshold.quantity or capacity * (threshold.percent or 0.0) / 100
    return SignalReading(
        1.0 if free < limit else 0.0,
        threshold.signal.value,
        "pods",
        "need = 1 where available < threshold else 0",
        (
            Term("available", free, unit),
            Term("threshold", limit, unit),
            Term("capacity", capacity, unit),
        ),
    )


def _system_load(view: StrategyView, threshold: NodeThreshold) -> SignalReading | None:
    load, percent = _last(view, "node_load1"), threshold.percent or 0.0
    if load is None or not view.cpus:
        return None
    return SignalReading(
        1.0 if 100 * load > percent * len(view.cpus) else 0.0,
        threshold.signal.value,
        "pods",
        "need = 1 where 100 × load > threshold × CPUs else 0",
        (
            Term("load", load),
            Term("threshold", percent, "%"),
            Term("CPUs", len(view.cpus)),
        ),
    )


def _last(view: StrategyView, kind: str) -> float | None:
    """The newest value of a series that is measured each 10 s."""
    found = view.history.windows(kind, PSI_SECONDS).get(())
    return found.last if found is not None and found.points else None


_READERS: dict[NodeSignal, Callable[[StrategyView, NodeThreshold], SignalReading | None]] = {
    NodeSignal.MEMORY_AVAILABLE: _memory_available,
    NodeSignal.CPU_USAGE: _cpu_usage,
    NodeSignal.CLASS_MEMORY_PRESSURE: _class_memory_pressure,
    NodeSignal.NUMA_MEMORY_FREE: _numa_memory_free,
    NodeSignal.POD_RSS: _pod_rss,
    NodeSignal.IMAGEFS_AVAILABLE: _imagefs,
    NodeSignal.IMAGEFS_INODES_FREE: _imagefs,
    NodeSignal.SYSTEM_LOAD: _system_load,
    **dict.fromkeys(_PSI_WORDS, _pressure),
}
