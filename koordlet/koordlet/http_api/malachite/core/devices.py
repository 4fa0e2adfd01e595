"""``system/io``, ``system/network``, ``realtime/freq``: disks, interfaces, CPU clocks.

No IO of its own. Counters are the kernel's, since boot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from koord_model import cpuset

from koordlet.http_api.malachite.core.counters import CounterGrowths
from koordlet.http_api.malachite.core.kernel_text import Document, NodeFileTree, headed

_ZRAM = re.compile(r"zram[0-9]+")
_ZRAM_FIELDS = ("orig_data_size", "compr_data_size", "mem_used_total")
_TYPES = (("nvme", "NVME"), ("vd", "VIRTIO"))
_INTERFACE = tuple(
    f"{way}_{name}"
    for way, names in (
        ("receive", "bytes packets errs drop fifo frame compressed multicast"),
        ("transmit", "bytes packets errs drop fifo colls carrier compressed"),
    )
    for name in names.split()
)
_TCP = {
    "tcp_delay_acks": "DelayedACKs",
    "tcp_listen_overflows": "ListenOverflows",
    "tcp_listen_drops": "ListenDrops",
    "tcp_abort_on_memory": "TCPAbortOnMemory",
    "tcp_req_q_full_drop": "TCPReqQFullDrop",
    "tcp_timeouts": "TCPTimeouts",
    "tcp_mem_press": "TCPMemoryPressures",
    "tcp_mem_press_chrono": "TCPMemoryPressuresChrono",
}


def disks(files: NodeFileTree) -> Document:
    """All block devices, and compressed swap.

    Raises:
        OSError: diskstats cannot be read.
    """
    lines = [line.split() for line in files.proc("diskstats").splitlines()]
    found = [_disk(files, words) for words in lines if len(words) >= 13]
    return {"disk_io": found, "zram_stat": list(_zram(files))}


def network(files: NodeFileTree, growths: CounterGrowths, steady: float) -> Document:
    """The host's interfaces and its TCP.

    Raises:
        OSError: the host's list of interfaces cannot be read.
    """
    lines = files.proc("1/net/dev").splitlines()[2:]
    return {
        "networkcard": [_interface(files, line) for line in lines],
        "tcp": _tcp(files, growths, steady),
    }


def clocks(files: NodeFileTree) -> list[Document] | None:
    """Each CPU's clock in kHz by its number, 0 of one that does not run; ``None`` without."""
    root = f"{files.sys_root}/devices/system/cpu"
    try:
        present = cpuset.parse(files.read(f"{root}/present"))
    except ValueError:
        return None
    texts = [
        files.read(f"{root}/cpu{cpu}/cpufreq/scaling_cur_freq").strip()
        for cpu in range(max(present, default=-1) + 1)
    ]
    if not any(texts):
        return None
    return [{"scaling_cur_freq": int(text) if text.isdigit() else 0} for text in texts]


def _disk(files: NodeFileTree, words: list[str]) -> Document:
    name = words[2]
    queue = f"{files.sys_root}/block/{name.replace('/', '!')}/queue"
    latency = files.read(f"{queue}/wbt_lat_usec").strip()
    return {
        "primary_device_id": int(words[0]),
        "secondary_device_id": int(words[1]),
        "device_name": name,
        "io_read": int(words[3]),
        "io_write": int(words[7]),
        "io_busy": int(words[12]),
        "disk_type": _disk_type(name, files.read(f"{queue}/rotational").strip()),
        "wbt_lat_usec": int(latency) if latency.isdigit() else 0,
    }


def _disk_type(name: str, rotational: str) -> str:
    """The kind of a disk, "" of what is none, such as a partition."""
    if not rotational:
        return ""
    for prefix, kind in _TYPES:
        if name.startswith(prefix):
            return kind
    return "HDD" if rotational == "1" else "SSD"


def _zram(files: NodeFileTree) -> Iterator[Document]:
    root = f"{files.sys_root}/block"
    for name in filter(_ZRAM.fullmatch, files.names(root)):
        sizes = files.read(f"{root}/{name}/mm_stat").split()
        if len(sizes) >= len(_ZRAM_FIELDS):
            amounts = dict(zip(_ZRAM_FIELDS, map(int, sizes), strict=False))
            yield {"name": name, **amounts}


def _interface(files: NodeFileTree, line: str) -> Document:
    name, _, words = line.partition(":")
    name = name.strip()
    counted = dict(zip(_INTERFACE, map(int, words.split()), strict=False))
    try:
        speed = int(files.read(f"{files.sys_root}/class/net/{name}/speed"))
    except ValueError:
        speed = -1  # it has none, or is down
    return {"name": name, **counted, **({"speeds": speed} if speed >= 0 else {})}


def _tcp(files: NodeFileTree, growths: CounterGrowths, steady: float) -> Document:
    root = f"{files.layout.proc_root}/1/net"
    extended = headed(files.read(f"{root}/netstat"), "TcpExt")
    basic = headed(files.read(f"{root}/snmp"), "Tcp")
    out, again = basic.get("OutSegs", 0), basic.get("RetransSegs", 0)
    growth = growths.of("tcp", (out, again), steady)
    grown = growth.amounts if growth is not None else (0, 0)
    return {
        **{new: extended[old] for new, old in _TCP.items() if old in extended},
        "tcp_out_segs": out,
        "tcp_old_out_segs": out - grown[0],
        "tcp_retrans_segs": again,
        "tcp_old_retrans_segs": again - grown[1],
        "tcp_retran": grown[1] / grown[0] if grown[0] else 0.0,
    }
