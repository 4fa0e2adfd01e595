"""Memory bandwidth and cache occupancy by resctrl group: ``realtime/resctrl``. No IO of its own.

Counters are the kernel's, since boot (Documentation/filesystems/resctrl.rst). A control group's
include those of the monitoring groups in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from koordlet.http_api.malachite.core.kernel_text import Document, NodeFileTree, numbered

ROOT = "root"
"""The client's name for the group of all other tasks."""
_CACHE = re.compile(r"mon_L3_([0-9]{2,6})")
_NO_GROUPS = frozenset({"info", "mon_groups", "mon_data"})
BANDWIDTH = ("mbm_total_bytes", "mbm_local_bytes")
_ALL = (*BANDWIDTH, "llc_occupancy")


def groups(files: NodeFileTree, counters: Iterable[str]) -> dict[str, list[Document]]:
    """The counters of each cache, by control group; {} without monitoring."""
    root = files.layout.resctrl_root
    try:
        below = [name for name in files.tree.entries(root) if name not in _NO_GROUPS]
    except OSError:
        return {}
    found = {ROOT: list(_caches(files, root, counters))}
    found |= {name: list(_caches(files, f"{root}/{name}", counters)) for name in below}
    return {name: caches for name, caches in found.items() if caches}


def caches(files: NodeFileTree) -> Document | None:
    """The counters of each cache, all groups together; ``None`` without monitoring."""
    sums: dict[int, Document] = {}
    for found in groups(files, _ALL).values():
        for cache in found:
            known = sums.setdefault(cache["id"], {"id": cache["id"]})
            for name in cache.keys() - {"id"}:
                known[name] = known.get(name, 0) + cache[name]
    if not sums:
        return None
    return {"path": f"{files.layout.resctrl_root}/mon_data", "l3mon": list(sums.values())}


def _caches(files: NodeFileTree, group: str, counters: Iterable[str]) -> Iterator[Document]:
    directory = f"{group}/mon_data"
    for number, name in numbered(files.names(directory), _CACHE):
        texts = {
            counter: files.read(f"{directory}/{name}/{counter}").strip() for counter in counters
        }
        known = {counter: int(text) for counter, text in texts.items() if text.isdigit()}
        if known:
            yield {"id": number, **known}
