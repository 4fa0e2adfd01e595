"""``system/memory``: the machine's memory and that of its NUMA nodes, in KiB. No IO of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from koord_host.kernel_files import zoneinfo

from koordlet.http_api.malachite.core.kernel_text import (
    Document,
    NodeFileTree,
    counters,
    kibibytes,
    list_of,
    numbered,
    renamed,
)

_NODE = re.compile(r"node([0-9]{1,5})")
_UNUSED = ("MemFree", "Buffers", "Cached", "SReclaimable")
"""Not used by Malachite's formula, tmpfs neither."""
_SYSTEM = {
    "mem_total": "MemTotal",
    "mem_free": "MemFree",
    "mem_shm": "Shmem",
    "mem_available": "MemAvailable",
    "mem_buffers": "Buffers",
    "mem_page_cache": "Cached",
    "mem_slab_reclaimable": "SReclaimable",
    "mem_dirty_page_cache": "Dirty",
    "mem_write_back_page_cache": "Writeback",
    "mem_swap_total": "SwapTotal",
    "mem_swap_free": "SwapFree",
    "mem_active_anon": "Active(anon)",
    "mem_inactive_anon": "Inactive(anon)",
    "mem_active_file": "Active(file)",
    "mem_inactive_file": "Inactive(file)",
}
_VMSTAT = {
    "vmstat_pgsteal_kswapd": "pgsteal_kswapd",
    "vmstat_pgsteal_direct": "pgsteal_direct",
    "vmstat_pgscan_kswapd": "pgscan_kswapd",
    "vmstat_pgscan_direct": "pgscan_direct",
    "vmstat_compact_stall": "compact_stall",
}
_NUMA = {
    "mem_total": "MemTotal",
    "mem_free": "MemFree",
    "mem_used": "MemUsed",
    "mem_shmem": "Shmem",
    "mem_file_pages": "FilePages",
    "mem_active_anon": "Active(anon)",
    "mem_inactive_anon": "Inactive(anon)",
    "mem_active_file": "Active(file)",
    "mem_inactive_file": "Inactive(file)",
}
_RECLAIMABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


def memory(files: NodeFileTree) -> Document:
    """The document.

    Raises:
        OSError: a file that every kernel has cannot be read.
    """
    found = kibibytes(files.proc("meminfo"))
    used = found["MemTotal"] - sum(found.get(name, 0) for name in _UNUSED)
    system = {
        **renamed(found, _SYSTEM),
        "mem_used": max(used, 0),
        **renamed(counters(files.proc("vmstat")), _VMSTAT),
    }
    factor = files.read(f"{files.layout.proc_root}/sys/vm/watermark_scale_factor").strip()
    if factor.isdigit():
        system["vm_watermark_scale_factor"] = int(factor)
    return {"system": system, "numa": list(_numa_nodes(files))}


def _numa_nodes(files: NodeFileTree) -> Iterator[Document]:
    """All nodes; a kernel without NUMA has none.

    What is available is free or page cache or reclaimable, above the low watermark; the kernel
    itself gives no such number of a node.
    """
    try:
        zones = zoneinfo.parse(files.read(f"{files.layout.proc_root}/zoneinfo"))
    except ValueError:
        zones = {}
    root = f"{files.sys_root}/devices/system/node"
    for number, name in numbered(files.names(root), _NODE):
        found = kibibytes(files.read(f"{root}/{name}/meminfo"))
        if "MemTotal" not in found:
            continue  # taken out of the machine meanwhile
        low = zones[number].low * files.page_bytes // 1024 if number in zones else 0
        available = sum(found.get(kind, 0) for kind in _RECLAIMABLE) - low
        yield {
            "id": number,
            "path": f"{root}/{name}",
            "cpu_list": list_of(files.read(f"{root}/{name}/cpulist")),
            **renamed(found, _NUMA),
            "mem_available": max(available, 0),
        }
