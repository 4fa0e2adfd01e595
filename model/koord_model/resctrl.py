"""Cache ways and memory bandwidth that a pod, or a class of pods, may use.

A pod asks for its own in the annotation ``node.koordinator.sh/resctrl``::

    {"llc": {"schemata": {"range": [20, 80]},
             "schemataPerCache": [{"cacheID": 1, "range": [0, 50]}]},
     "mb": {"schemata": {"percent": 50},
            "schemataPerCache": [{"cacheID": 1, "percent": 20}]}}

"l2", shaped as "llc", is ours; Koordinator has no such key. Keys are read without
regard to case, as Koordinator reads them: its own proposal spells them otherwise
("LLC", "cacheid") than its code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from koord_model.annotations import about, decode
from koord_model.excerpt import excerpt
from koord_model.keys import ANNOTATION_RESCTRL
from koord_model.node_slo import NodeSLO
from koord_model.pod import Pod
from koord_model.qos import QoSClass, kube_qos, qos_class_or_default

POD_GROUP_PREFIX = "koordlet-"
"""Resctrl groups of single pods are named so, with the pod's UID; Koordinator's prefix."""

CLASS_GROUPS = ("LSR", "LS", "BE")
"""The resctrl groups that pods of a class share, as Koordinator names them."""


@dataclass(frozen=True, slots=True)
class CacheWays:
    """A part of a cache: from ``start`` to ``end`` percent of its ways.

    Raises:
        ValueError: no part of anything: not 0 ≤ start < end ≤ 100.
    """

    start: int = 0
    end: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= 100:
            raise ValueError(
                f"[{self.start}, {self.end}] is not a valid range; expected 0 ≤ start < end ≤ 100"
            )

    def __str__(self) -> str:
        return f"{self.start}–{self.end} %"


@dataclass(frozen=True, slots=True)
class ResctrlLimits:
    """A resctrl group and what it may use.

    ``llc``, ``l2`` and ``mb`` (percent) hold for every domain that ``llc_by_domain``,
    ``l2_by_domain`` and ``mb_by_domain`` do not name. ``None``: as much as tasks have
    that are in no group. ``fallback`` is the class whose shared group takes the tasks
    where the hardware has no group left. ``full_mbps`` is 100 % of memory bandwidth in MiB/s,
    for nodes with mba_MBps, where nothing says it.
    """

    group: str
    llc: CacheWays | None = None
    mb: int | None = None
    llc_by_domain: Mapping[int, CacheWays] = field(default_factory=dict)
    mb_by_domain: Mapping[int, int] = field(default_factory=dict)
    fallback: QoSClass = QoSClass.NONE
    l2: CacheWays | None = None
    l2_by_domain: Mapping[int, CacheWays] = field(default_factory=dict)
    full_mbps: int | None = None

    def __str__(self) -> str:
        parts = [
            *_shown("llc", self.llc, self.llc_by_domain),
            *_shown("l2", self.l2, self.l2_by_domain),
            *_shown("mb", self.mb, self.mb_by_domain),
        ]
        return ", ".join(parts)


def class_group(qos: QoSClass) -> str:
    """The shared group of a class; "", the root group, for classes that have none."""
    shared = QoSClass.LSR if qos is QoSClass.LSE else qos
    return shared.value if shared.value in CLASS_GROUPS else ""


def class_limits(slo: NodeSLO) -> Mapping[str, ResctrlLimits]:
    """Return the limits of the shared groups by name: none for a disabled class."""
    return {name: _class_limit(name, slo) for name in CLASS_GROUPS}


def _class_limit(name: str, slo: NodeSLO) -> ResctrlLimits:
    desired = slo.of(QoSClass(name)).resctrl
    if not desired.enable:
        return ResctrlLimits(name)
    try:
        llc = CacheWays(desired.cat_start, desired.cat_end)
    except ValueError:
        llc = None
    return ResctrlLimits(name, llc=llc, mb=desired.mba if 0 <= desired.mba <= 100 else None)


def resctrl_limits(pod: Pod) -> tuple[ResctrlLimits | None, tuple[str, ...]]:
    """Parse the limits of a pod's annotation, with a line for each unusable field.

    ``None`` where nothing is desired, or nothing of it can be used.
    """
    text = pod.annotations.get(ANNOTATION_RESCTRL)
    if text is None:
        return None, ()
    where = about(pod, ANNOTATION_RESCTRL)
    try:
        desired = parse(text)
        group = _group_of(pod)
    except ValueError as error:
        return None, (f"{where}: {error} (ignored)",)
    ignored = tuple(f"{where}: {line} (ignored)" for line in desired.ignored)
    if not desired:
        return None, ignored
    return (
        ResctrlLimits(
            group,
            llc=desired.llc.everywhere,
            mb=desired.mb.everywhere,
            llc_by_domain=desired.llc.by_domain,
            mb_by_domain=desired.mb.by_domain,
            fallback=qos_class_or_default(pod.labels, kube_qos(pod.cgroup_parent)),
            l2=desired.l2.everywhere,
            l2_by_domain=desired.l2.by_domain,
        ),
        ignored,
    )


# The UID becomes the name of a directory.
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def _group_of(pod: Pod) -> str:
    if not _UID.fullmatch(pod.uid):
        raise ValueError(f"the pod's UID is {excerpt(pod.uid)}, which names no group")
    return POD_GROUP_PREFIX + pod.uid


_Value = TypeVar("_Value", CacheWays, int)


@dataclass(frozen=True, slots=True)
class DomainValues(Generic[_Value]):
    """Values desired of one resource: everywhere, and in the named domains."""

    everywhere: _Value | None = None
    by_domain: Mapping[int, _Value] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.everywhere is not None or bool(self.by_domain)


@dataclass(frozen=True, slots=True)
class ResctrlAnnotation:
    """An annotation's text, read; ``ignored`` are lines about what cannot be used."""

    llc: DomainValues[CacheWays] = DomainValues()
    l2: DomainValues[CacheWays] = DomainValues()
    mb: DomainValues[int] = DomainValues()
    ignored: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.llc or self.l2 or self.mb)


_DECODER = msgspec.json.Decoder(Any)
_PARTS = ("llc", "l2", "mb")
_MOST_LINES = 10
"""Lines about one annotation; its author could make us write thousands."""


@lru_cache(maxsize=256)
def parse(text: str) -> ResctrlAnnotation:
    """The annotation's text, field by field.

    Raises:
        ValueError: no JSON, or no JSON object.
    """
    ignored: list[str] = []
    document: object = decode(_DECODER, text)
    if document is None:
        return ResctrlAnnotation()
    if not isinstance(document, dict):
        raise ValueError(f"{_json(document)} is not a JSON object")  # noqa: TRY004 - bad input
    sections = _keys(document, "", _PARTS, ignored)
    desired = ResctrlAnnotation(
        llc=_part(sections, "llc", "range", _ways, ignored),
        l2=_part(sections, "l2", "range", _ways, ignored),
        mb=_part(sections, "mb", "percent", _percent, ignored),
    )
    if len(ignored) > _MOST_LINES:
        more = len(ignored) - _MOST_LINES
        ignored[_MOST_LINES:] = [f"and {more} more fields that cannot be used"]
    return ResctrlAnnotation(desired.llc, desired.l2, desired.mb, tuple(ignored))


def _part(
    sections: Mapping[str, object],
    name: str,
    leaf: str,
    read: Callable[[object], _Value],
    ignored: list[str],
) -> DomainValues[_Value]:
    known = ("schemata", "schemataPerCache")
    section = _keys(sections.get(name), name, known, ignored)
    schemata = _keys(section.get("schemata"), f"{name}.schemata", (leaf,), ignored)
    everywhere = _read(schemata.get(leaf), f"{name}.schemata.{leaf}", read, ignored)
    by_domain: dict[int, _Value] = {}
    entries = section.get("schematapercache")
    for domain, value in _entries(entries, f"{name}.schemataPerCache", leaf, read, ignored):
        if domain in by_domain:
            ignored.append(
                f"{name}.schemataPerCache names cacheID {domain} twice; the first counts"
            )
        by_domain.setdefault(domain, value)
    return DomainValues(everywhere, by_domain)


def _entries(
    entries: object, where: str, leaf: str, read: Callable[[object], _Value], ignored: list[str]
) -> Iterator[tuple[int, _Value]]:
    if not isinstance(entries, list):
        if entries is not None:
            ignored.append(f"{where} is {_json(entries)}; expected a list")
        return
    for index, entry in enumerate(entries):
        place = f"{where}[{index}]"
        given = _keys(entry, place, ("cacheID", leaf), ignored)
        # Koordinator's writers leave out a cacheID of 0.
        domain = _read(given.get("cacheid", 0), f"{place}.cacheID", _domain, ignored)
        if given and leaf not in given:
            ignored.append(f"{place} has no {leaf}")
        value = _read(given.get(leaf), f"{place}.{leaf}", read, ignored)
        if domain is not None and value is not None:
            yield domain, value


def _keys(given: object, where: str, known: tuple[str, ...], ignored: list[str]) -> dict[str, Any]:
    """A JSON object by its keys in lower case; a line for keys that nobody reads."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        ignored.append(f"{where} is {_json(given)}; expected an object")
        return {}
    expected = {name.lower() for name in known}
    found = {}
    for key, value in given.items():
        if key.lower() in expected:
            found[key.lower()] = value
        else:
            shown = f"{where}: key" if where else "key"
            ignored.append(f"{shown} {excerpt(key)} is not known; expected {' or '.join(known)}")
    return found


_Read = TypeVar("_Read")


def _read(
    given: object, where: str, read: Callable[[object], _Read], ignored: list[str]
) -> _Read | None:
    if given is None:
        return None
    try:
        return read(given)
    except ValueError as error:
        ignored.append(f"{where} is {_json(given)}; {error}")
        return None


def _ways(given: object) -> CacheWays:
    expected = "expected [start, end] in percent, 0 ≤ start < end ≤ 100"
    if not isinstance(given, list) or len(given) != 2:
        raise ValueError(expected)
    start, end = given
    if not _is_whole(start) or not _is_whole(end) or not 0 <= start < end <= 100:
        raise ValueError(expected)
    return CacheWays(start, end)


def _percent(given: object) -> int:
    # 0 would be "unset" to Koordinator, and no hardware has it.
    return _within(given, 1, 100)


def _domain(given: object) -> int:
    return _within(given, 0, (1 << 31) - 1)


def _within(given: object, least: int, most: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise ValueError(f"expected {least} to {most}")
    return given


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _json(value: object) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "nested too deeply"
    return text if len(text) <= 40 and text.isprintable() else excerpt(text)


def _shown(
    name: str,
    everywhere: CacheWays | int | None,
    by_domain: Mapping[int, CacheWays] | Mapping[int, int],
) -> Iterator[str]:
    if everywhere is not None:
        yield f"{name} {_amount(everywhere)}"
    for domain in sorted(by_domain):
        yield f"{name} of cache {domain} {_amount(by_domain[domain])}"


def _amount(value: CacheWays | int) -> str:
    return str(value) if isinstance(value, CacheWays) else f"{value} %"
