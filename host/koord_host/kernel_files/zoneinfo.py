"""Free memory and watermarks of NUMA nodes, from the kernel's text: no IO.

The format is /proc/zoneinfo's (proc(5)), which counts pages by zone. A node is the sum of its
zones: a small machine has no zone "Normal", and memory of "Movable" is free as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(
    r"^Node (?P<node>\d+), zone"
    r"|^ +(?:pages )?(?P<name>min|low|high|nr_free_pages|nr_zone_inactive_file) +(?P<pages>\d+)$",
    re.MULTILINE,
)
_FIELDS = {"nr_free_pages": "free", "nr_zone_inactive_file": "inactive_file"}


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """Memory of a NUMA node in pages.

    ``min``, ``low`` and ``high`` are the watermarks: below ``low`` the kernel reclaims in the
    background until ``high``, below ``min`` whoever allocates has to.
    """

    free: int = 0
    min: int = 0
    low: int = 0
    high: int = 0
    inactive_file: int = 0


def parse(text: str) -> Mapping[int, NumaMemory]:
    """Memory by NUMA node, from ``/proc/zoneinfo``.

    Raises:
        ValueError: it names no zone, or a zone without its numbers.
    """
    nodes: dict[int, dict[str, int]] = {}
    pages: dict[str, int] = {}
    for found in _LINE.finditer(text):
        if found["node"]:
            pages = nodes.setdefault(int(found["node"]), {})
        else:
            name = _FIELDS.get(found["name"], found["name"])
            pages[name] = pages.get(name, 0) + int(found["pages"])
    if not nodes:
        raise ValueError('no line "Node …, zone"')
    for node, sizes in nodes.items():
        missing = [name for name in NumaMemory.__dataclass_fields__ if name not in sizes]
        if missing:
            raise ValueError(f"node {node} has no line {', '.join(missing)}")
    return {node: NumaMemory(**sizes) for node, sizes in nodes.items()}
