"""The controllers with a file or two, and what only vendors' kernels have."""

from __future__ import annotations

import errno

from tests.support.fake_cgroupfs import disks
from tests.support.fake_cgroupfs.group import File, Group, constant, ranged
from tests.support.fake_cgroupfs.memory import bound
from tests.support.fake_cgroupfs.numerals import MAX_PAGES, refuse, unsigned

_PRESSURE = "".join(
    f"{who} avg10=0.00 avg60=0.00 avg300=0.00 total=0\n" for who in ("some", "full")
)


def _write_classid(group: Group, text: str) -> None:
    value = unsigned(text)
    if value >= 2**32:
        refuse(errno.EINVAL)
    group.values["classid"] = value


def _write_usage(_group: Group, text: str) -> None:
    if unsigned(text):
        refuse(errno.EINVAL)


NET_CLS = {
    "net_cls.classid": File(lambda group: f"{group.values.get('classid', 0)}\n", _write_classid)
}
CPUACCT = {"cpuacct.usage": File(lambda _group: "0\n", _write_usage)}
#: v2, in every group whatever its controllers.
PRESSURE = {f"{what}.pressure": constant(_PRESSURE) for what in ("cpu", "memory", "io")}
_USAGE = "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"
CPU_STAT = {"cpu.stat": constant(_USAGE)}

_VENDOR_MEMORY = {
    "memory.wmark_ratio": ranged("wmark_ratio", 0, 0, 100),
    "memory.wmark_scale_factor": ranged("wmark_scale_factor", 50, 1, 1000),
    "memory.wmark_min_adj": ranged("wmark_min_adj", 0, -25, 50),
    "memory.priority": ranged("priority", 0, 0, 12),
    "memory.use_priority_oom": ranged("use_priority_oom", 0, 0, 1),
}
VENDOR_V1 = {
    "cpu": {"cpu.bvt_warp_ns": ranged("bvt", 0, -1, 2)},
    "cpuacct": PRESSURE,
    "memory": _VENDOR_MEMORY
    | {
        "memory.min": bound("min", 0),
        "memory.low": bound("low", 0),
        "memory.high": bound("high", MAX_PAGES),
        "memory.oom.group": ranged("oom_group", 0, 0, 1),
        "memory.idle_page_stats": constant(""),
    },
    "blkio": disks.V1_VENDOR,
}
VENDOR_V2 = {
    "cpu": VENDOR_V1["cpu"],
    "memory": _VENDOR_MEMORY
    | {
        "memory.pagecache_limit.enable": ranged("pagecache", 0, 0, 1),
        "memory.pagecache_limit.size": ranged("pagecache_size", 0, 0, 2**63 - 1),
        "memory.pagecache_limit.sync": ranged("pagecache_sync", 0, 0, 1),
    },
}
