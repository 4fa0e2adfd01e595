"""Annotations about CPUs, of a Node and of its NodeResourceTopology.

Each reader is given the decoded object, and gives what it could read, with lines on
what it ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from koord_model import cpuset
from koord_model.annotations import decode
from koord_model.fields import Fields, plain_number, text
from koord_model.keys import (
    ANNOTATION_BE_CPU_SHARED_POOLS,
    ANNOTATION_CPU_BASIC_INFO,
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_CPU_SHARED_POOLS,
    ANNOTATION_SYSTEM_QOS_RESOURCE,
)
from koord_model.node import SharedPool, Topology

MAX_RATIO = 100.0
"""Larger ratios of CPU speeds are typing errors."""

_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def normalization_ratio(document: Mapping[str, object]) -> tuple[float, tuple[str, ...]]:
    """Return the speed of a CPU here over the reference's; 1 where the Node has none."""
    ignored: list[str] = []
    annotations = _annotations(document, "Node", ignored)
    key, expected = ANNOTATION_CPU_NORMALIZATION_RATIO, f"a number above 0, up to {MAX_RATIO:g}"
    return annotations.take(key, 1.0, _ratio, expected, "default 1 kept"), tuple(ignored)


def _ratio(given: object) -> float:
    ratio = plain_number(given)
    if not 0 < ratio <= MAX_RATIO:
        raise ValueError(given)
    return ratio


@dataclass(frozen=True, slots=True)
class CPUBasicInfo:
    """Model of a node's CPUs, and their features that are on: hyper-threads, turbo."""

    model: str
    hyper_threads: bool = False
    turbo: bool = False


def cpu_basic_info(document: Mapping[str, object]) -> tuple[CPUBasicInfo | None, tuple[str, ...]]:
    """Parse the CPUs' model of a NodeResourceTopology; ``None`` where there is none."""
    ignored: list[str] = []
    annotations = _annotations(document, "NodeResourceTopology", ignored)
    given = _object(annotations, ANNOTATION_CPU_BASIC_INFO, ignored)
    model = given.text("cpuModel")
    hyper_threads = given.flag("hyperThreadEnabled", default=False)
    info = CPUBasicInfo(model, hyper_threads, given.flag("turboEnabled", default=False))
    return info if model and not ignored else None, tuple(ignored)


def topology(
    document: Mapping[str, object], online: str = "", *, be_cpu_manager: bool = False
) -> tuple[Topology, tuple[str, ...]]:
    """The CPU pools in a NodeResourceTopology's annotations.

    ``online`` are the node's CPUs ("": not known); pools that name others are left
    out. Best-effort pods have pools of their own with ``be_cpu_manager`` only.
    """
    ignored: list[str] = []
    annotations = _annotations(document, "NodeResourceTopology", ignored)
    there = cpuset.parse(online)

    def cpus(given: object) -> str:
        listed = cpuset.parse(text(given))
        if there and not listed <= there:
            raise ValueError(given)
        return cpuset.render(listed)

    def pools(key: str) -> tuple[SharedPool, ...]:
        named = _object(annotations, key, ignored, inside="pools")
        read = []
        for pool in named.objects("pools"):
            before = len(ignored)
            node = pool.take("node", 0, _numa_node, "a NUMA node", "pool left out")
            listed = pool.take("cpuset", "", cpus, expected, "pool left out")
            if len(ignored) == before:
                read.append(SharedPool(node, listed))
        return tuple(read)

    expected = f"a list of this node's CPUs ({online})" if online else 'a CPU list like "0-3,8"'
    system = _object(annotations, ANNOTATION_SYSTEM_QOS_RESOURCE, ignored)
    kubelet = _object(annotations, ANNOTATION_CPU_MANAGER_POLICY, ignored)
    found = Topology(
        shared_pools=pools(ANNOTATION_CPU_SHARED_POOLS),
        be_shared_pools=pools(ANNOTATION_BE_CPU_SHARED_POOLS) if be_cpu_manager else None,
        system_cpuset=system.take("cpuset", "", cpus, expected, "left empty"),
        kubelet_policy=kubelet.text("policy", "none") or "none",
        online=online,
    )
    return found, tuple(ignored)


def _annotations(document: Mapping[str, object], kind: str, ignored: list[str]) -> Fields:
    return Fields(document, kind, ignored).of("metadata").of("annotations")


def _object(annotations: Fields, key: str, ignored: list[str], inside: str = "") -> Fields:
    """The JSON in an annotation; ``inside`` is the name to give it where it is a list."""
    given = annotations.take(key, None, _decoded, "JSON", "left out")
    where = f"NodeResourceTopology annotation {key}:"
    return Fields({inside: given} if inside else given, where, ignored)


def _decoded(given: object) -> object:
    return decode(_ANY, text(given))


def _numa_node(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 16:
        raise ValueError(given)
    return given
