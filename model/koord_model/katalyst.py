"""Katalyst's words for pods, in Koordinator's. No IO.

A Katalyst pod says its level, and in JSON objects of strings its enhancements, in annotations.
Each has a counterpart among Koordinator's labels and annotations, or none. What the pod says in
Koordinator's words already goes before: it is not changed.

| Katalyst | Koordinator |
|---|---|
| dedicated_cores | LSR, koord-prod |
| shared_cores | LS |
| reclaimed_cores | BE, koord-batch |
| system_cores | SYSTEM |
| cpu_burst_policy, cpu_burst_percent | cpuBurst |
| full_pcpus_pairing, numa_exclusive | resource-spec |
| numa_binding | numa-topology-spec |
| oom_priority | oom-score-adj |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from koord_model.annotations import decode
from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_CPU_BURST,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_OOM_SCORE_ADJ,
    ANNOTATION_RESOURCE_SPEC,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_QOS,
)
from koord_model.priority import LABEL_PRIORITY_CLASS, PriorityClass, priority_class
from koord_model.qos import QoSClass, qos_class

LEVEL = "katalyst.kubewharf.io/qos_level"
_ENHANCEMENTS = tuple(
    f"katalyst.kubewharf.io/{of}_enhancement" for of in ("cpu", "memory", "network")
)

RESOURCES: Mapping[str, str] = {
    "resource.katalyst.kubewharf.io/reclaimed_millicpu": BATCH_CPU,
    "resource.katalyst.kubewharf.io/reclaimed_memory": BATCH_MEMORY,
}
"""The resources of reclaimed_cores and what they are here, in the same units."""

LEVELS: Mapping[str, QoSClass] = {
    "dedicated_cores": QoSClass.LSR,
    "shared_cores": QoSClass.LS,
    "reclaimed_cores": QoSClass.BE,
    "system_cores": QoSClass.SYSTEM,
}
_PRIORITY = {QoSClass.LSR: PriorityClass.PROD, QoSClass.BE: PriorityClass.BATCH}
"""Classes that Koordinator accepts only beside a priority class, and the usual one."""

# Of Katalyst: where the levels' scores begin, and the two that mean something else.
_OOM_BEGINS = {QoSClass.BE: -100, QoSClass.LS: 0, QoSClass.LSR: 100, QoSClass.SYSTEM: 200}
_OOM_WIDTH = 100
_OOM_IGNORED, _OOM_NEVER = -300, 300
# Of ours: the score that the kernel has for the lowest of a level, and how far one step goes.
_OOM_SCORES = {
    QoSClass.BE: (1000, 1),
    QoSClass.LS: (899, 4),
    QoSClass.LSR: (500, 5),
    QoSClass.SYSTEM: (0, 9),
}
_OOM_NEVER_SCORE = -999

Words = Mapping[str, str]
_NUMBER = re.compile(r"-?[0-9]{1,4}")
_LONGEST_REMEMBERED = 4096
"""Letters of a pod's enhancements; all of Katalyst's words together have fewer."""
_RATIO = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?")
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_COMMON_POOLS = frozenset({"default", "share"})
"""Katalyst's names for the CPUs of those without a pool."""
_WORDS: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True)
class Translation:
    """Labels and annotations to add, and lines on what has no effect here, and why."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def translate(labels: Words, annotations: Words, priority: int | None) -> Translation:
    """Return what a pod says in Katalyst's words. ``priority`` is its ``spec.priority``."""
    ignored: list[str] = []
    level = _level(annotations, ignored)
    if level is not QoSClass.NONE and LABEL_QOS in labels and qos_class(labels) is not level:
        ignored.append(
            f"annotation {LEVEL} is {annotations[LEVEL]}, which is {level}, and label {LABEL_QOS} "
            f"is {excerpt(labels[LABEL_QOS])}: the label counts"
        )
    qos = qos_class(labels) if LABEL_QOS in labels else level
    added = _labels(labels, qos, level, priority)
    # Without a level a pod is of shared_cores.
    found = dict(_annotations(annotations, qos or QoSClass.LS, ignored))
    return Translation(added, found, tuple(ignored))


def oom_score(qos: QoSClass, priority: int) -> int | None:
    """Kernel score (-1000 to 1000) of an ``oom_priority``; ``None`` if it asks for none.

    The order is Katalyst's: who has the higher priority is killed later. As there, a priority
    outside of its level's range counts as the nearest within.
    """
    if priority == _OOM_IGNORED:
        return None
    if priority == _OOM_NEVER:
        return _OOM_NEVER_SCORE
    begin = _OOM_BEGINS[qos]
    steps = min(max(priority, begin), begin + _OOM_WIDTH - 1) - begin
    lowest, each = _OOM_SCORES[qos]
    return lowest - each * steps


def ratio(annotations: Words, word: str, usual: float) -> float | None:
    """Return a positive number among a pod's enhancements; ``usual`` without one.

    ``None`` where the pod's own word is not one.
    """
    texts = tuple(annotations.get(key, "") for key in _ENHANCEMENTS)
    if sum(map(len, texts)) > _LONGEST_REMEMBERED:
        return None
    return _ratio(texts, word, usual) if any(texts) else usual


def cpuset_pool(annotations: Words) -> str:
    """Return the pool of CPUs that a pod of shared_cores names; "" for none, or for Katalyst's own.

    Raises:
        ValueError: it names something else; one line says what.
    """
    texts = tuple(annotations.get(key, "") for key in _ENHANCEMENTS)
    if not any(texts) or sum(map(len, texts)) > _LONGEST_REMEMBERED:
        return ""
    name = _remembered(texts)[0].get("cpuset_pool", "")
    if name and not _POOL.fullmatch(name):
        expected = "expected up to 63 letters, digits, -, _ or ."
        raise ValueError(f"cpuset_pool is {excerpt(name)}; {expected} (no pool)")
    return "" if name in _COMMON_POOLS else name


def _ratio(texts: tuple[str, ...], word: str, usual: float) -> float | None:
    words, readable = _remembered(texts)
    if word not in words:
        return usual if readable else None
    return float(words[word]) if _RATIO.fullmatch(words[word]) and float(words[word]) else None


# The same few texts, each second.
@lru_cache(maxsize=1024)
def _remembered(texts: tuple[str, ...]) -> tuple[Words, bool]:
    """Return the words of the enhancements, and whether all could be read."""
    ignored: list[str] = []
    words = _words(dict(zip(_ENHANCEMENTS, texts, strict=True)), ignored)
    return words, not ignored


def _level(annotations: Words, ignored: list[str]) -> QoSClass:
    word = annotations.get(LEVEL)
    if word is None:
        return QoSClass.NONE
    if word not in LEVELS:
        known = ", ".join(LEVELS)
        ignored.append(f"annotation {LEVEL} is {excerpt(word)}; expected one of {known} (left out)")
    return LEVELS.get(word, QoSClass.NONE)


def _labels(
    labels: Words, qos: QoSClass, level: QoSClass, priority: int | None
) -> Mapping[str, str]:
    if level is QoSClass.NONE:
        return {}
    found = {} if LABEL_QOS in labels else {LABEL_QOS: level.value}
    usual = _PRIORITY.get(qos)
    if usual is not None and priority_class(labels, priority) is PriorityClass.NONE:
        found |= {LABEL_PRIORITY_CLASS: usual.value} if LABEL_PRIORITY_CLASS not in labels else {}
    return found


# ---- enhancements


def _burst(words: Words, qos: QoSClass) -> object:
    policy = words["cpu_burst_policy"]
    if policy == "default":
        return None
    if policy not in ("closed", "static"):
        raise ValueError("expected default, closed or static")
    percent = _number(words.get("cpu_burst_percent", "100"), 0, 100)
    # As there, reclaimed_cores never burst.
    if policy == "closed" or qos is QoSClass.BE or percent == 0:
        return {"policy": "none"}
    return {"policy": "cpuBurstOnly", "cpuBurstPercent": percent}


def _whole_cores(words: Words, qos: QoSClass) -> object:
    asked = _asked(words["full_pcpus_pairing"], qos)
    return {"requiredCPUBindPolicy": "FullPCPUs"} if asked else None


def _exclusive(words: Words, qos: QoSClass) -> object:
    if not _asked(words["numa_exclusive"], qos):
        return None
    if words.get("numa_binding") != "true":
        raise ValueError("expected numa_binding beside it")
    return {"preferredCPUExclusivePolicy": "NUMANodeLevel"}


def _one_numa_node(words: Words, _qos: QoSClass) -> object:
    return {"numaTopologyPolicy": "SingleNUMANode"} if _flag(words["numa_binding"]) else None


def _oom_score_adj(words: Words, qos: QoSClass) -> object:
    return oom_score(qos, _number(words["oom_priority"], _OOM_IGNORED, _OOM_NEVER))


_RULES: Mapping[str, tuple[str, Callable[[Words, QoSClass], object]]] = {
    "cpu_burst_policy": (ANNOTATION_CPU_BURST, _burst),
    "full_pcpus_pairing": (ANNOTATION_RESOURCE_SPEC, _whole_cores),
    "numa_exclusive": (ANNOTATION_RESOURCE_SPEC, _exclusive),
    "numa_binding": (ANNOTATION_NUMA_TOPOLOGY_SPEC, _one_numa_node),
    "oom_priority": (ANNOTATION_OOM_SCORE_ADJ, _oom_score_adj),
}
"""By word: the annotation, and what gives its value or a part of it (``None``: nothing)."""

_READ_BY_OTHERS = frozenset(
    {"cpu_burst_percent", "cpuset_pool", "rss_overuse_threshold", "suppression_tolerance_rate"}
)


def _annotations(
    annotations: Words, qos: QoSClass, ignored: list[str]
) -> Iterator[tuple[str, str]]:
    words = _words(annotations, ignored)
    found: dict[str, object] = {}
    for word, given in words.items():
        about = f"{word} {excerpt(given)} among Katalyst's enhancements"
        if word not in _RULES:
            if word not in _READ_BY_OTHERS:
                ignored.append(f"{about} has no counterpart here (left out)")
            continue
        into, rule = _RULES[word]
        try:
            value = rule(words, qos)
        except ValueError as error:
            ignored.append(f"{about}: {error} (left out)")
            continue
        before = found.get(into)
        if value is not None:
            found[into] = (
                {**before, **value}
                if isinstance(before, dict) and isinstance(value, dict)
                else value
            )
    for into, value in found.items():
        text = json.dumps(value, separators=(",", ":"))
        if into not in annotations:
            yield into, text
        elif annotations[into] != text:
            ignored.append(f"annotation {into} is there already: {excerpt(text)} is left out")


def _words(annotations: Words, ignored: list[str]) -> Words:
    """Return the words of all enhancements; where one is in several, the first counts."""
    found: dict[str, str] = {}
    for key in _ENHANCEMENTS:
        if not annotations.get(key):
            continue
        try:
            words = decode(_WORDS, annotations[key])
        except ValueError as error:
            ignored.append(f"annotation {key}: {error} (left out)")
        else:
            found = {**words, **found}
    return found


def _asked(given: str, qos: QoSClass) -> bool:
    """True if a flag that is for dedicated_cores alone is set."""
    asked = _flag(given)
    if asked and qos is not QoSClass.LSR:
        raise ValueError("expected dedicated_cores with it")
    return asked


def _flag(given: str) -> bool:
    if given not in ("true", "false"):
        raise ValueError("expected true or false")
    return given == "true"


def _number(given: str, low: int, high: int) -> int:
    # Not int() alone: that takes spaces, underscores and digits of all scripts.
    if not _NUMBER.fullmatch(given) or not low <= int(given) <= high:
        raise ValueError(f"expected {low} to {high}")
    return int(given)
