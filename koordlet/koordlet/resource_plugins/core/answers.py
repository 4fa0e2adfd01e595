"""Plugins' answers as values, within bounds. No IO.

An answer that is larger, or names NUMA nodes that the machine does not have, is used as far as it
can be; what is left out is said in a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model.allocation import ResourceAllocation, TopologyHint
from koord_model.excerpt import excerpt
from koord_proto import resource_plugin_pb2 as pb

from koordlet.resource_plugins.core.hints import Hints

MOST_HINTS = 256
"""Of one resource: more than there are sets of 8 NUMA nodes, the most that the kubelet merges."""
MOST_TEXT = 16 << 10
"""Bytes of one resource's allocation; Katalyst's have some hundred."""


def parse_hints(
    answered: Mapping[str, pb.ListOfTopologyHints], resource: str, nodes: int
) -> tuple[Hints | None, str]:
    """The hints of a resource, and a line on what was left out; ``None``: no preference."""
    if resource not in answered:
        return None, ""
    return _hints(answered[resource].hints, nodes)


def parse_allocation(
    answered: pb.ResourceAllocation, nodes: int
) -> tuple[dict[str, ResourceAllocation], tuple[str, ...]]:
    """The resources of an answer, and lines on what was left out."""
    found, ignored = {}, []
    for name, info in answered.resource_allocation.items():
        if info.ByteSize() > MOST_TEXT:
            ignored.append(
                f"{excerpt(name)} has {info.ByteSize()} bytes; at most {MOST_TEXT} count"
            )
            continue
        hints, line = _hints(info.resource_hints.hints, nodes)
        found[name] = ResourceAllocation(
            info.oci_property_name,
            info.allocation_result,
            info.allocated_quantity,
            info.is_scalar_resource,
            {key: value for key, value in info.envs.items() if _is_variable(key, value)},
            dict(info.annotations),
            tuple(hints),
        )
        strange = sorted(key for key, value in info.envs.items() if not _is_variable(key, value))
        ignored += [f"{excerpt(key)} is no environment variable" for key in strange]
        ignored += [line] if line else []
    return found, tuple(ignored)


def _hints(given: Iterable[pb.TopologyHint], nodes: int) -> tuple[Hints, str]:
    hints: dict[TopologyHint, None] = {}
    strange = more = 0
    for hint in given:
        if any(node >= nodes.bit_length() or not nodes >> node & 1 for node in hint.nodes):
            strange += 1
        elif len(hints) >= MOST_HINTS:
            more += 1
        else:
            mask = sum(1 << node for node in set(hint.nodes)) if hint.nodes else None
            hints[TopologyHint(mask, hint.preferred)] = None
    line = f"{strange} hints name NUMA nodes that are not there" if strange else ""
    line = line or (f"{more} hints too many; at most {MOST_HINTS} count" if more else "")
    return tuple(hints), line


def _is_variable(name: str, value: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name + value
