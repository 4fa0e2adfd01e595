"""The table: writes into cgroup files, and what a kernel answers to each.

A step is ``at("<group>/<file>", text, answer)``; the answer is what reading gives
afterwards, or an errno. Several answers are those of different releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from errno import (
    EACCES,
    EBUSY,
    EEXIST,
    EINVAL,
    EISDIR,
    ENODEV,
    ENOENT,
    ENOSPC,
    ENOTDIR,
    EOPNOTSUPP,
    EOVERFLOW,
    ERANGE,
    ESRCH,
)

#: Stands for the id of a process that the runner has started.
PID = "<pid>"
_UNLIMITED = "9223372036854771712\n"


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to a group, and the answers that are right."""

    what: str
    group: str
    file: str
    text: str
    gives: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"{self.what} {self.group}/{self.file} {self.text!r}"


@dataclass(frozen=True, slots=True)
class Case:
    """Steps on groups of its own."""

    name: str
    versions: tuple[int, ...]
    groups: tuple[str, ...]
    steps: tuple[Step, ...]


def at(path: str, text: str, *gives: str | int) -> Step:
    """Write a file of a group."""
    group, _, file = path.rpartition("/")
    return Step("write", group, file, text, gives)


def each(path: str, *pairs: tuple[str, str | int]) -> tuple[Step, ...]:
    """Write a file again and again."""
    return tuple(at(path, text, gives) for text, gives in pairs)


def mkdir(path: str, subsystem: str, gives: str | int = "") -> Step:
    return Step("mkdir", path, f"{subsystem}:", "", (gives,))


def rmdir(path: str, subsystem: str, gives: str | int = "") -> Step:
    return Step("rmdir", path, f"{subsystem}:", "", (gives,))


_PLAIN_NUMBERS = Case(
    "a plain number has a base, a sign, one newline, and no other blank",
    (1,),
    (),
    (
        *each("cpu.shares", ("5\n", "5\n"), ("5\n\n", EINVAL), (" 6", EINVAL), ("6 ", EINVAL)),
        *each("cpu.shares", ("0x10", "16\n"), ("010", "8\n"), ("+9", "9\n"), ("08", EINVAL)),
        *each("cpu.shares", ("", "9\n"), ("\n", EINVAL), (" ", EINVAL), ("7\0x", "7\n")),
        *each("cpu.shares", ("1.5", EINVAL), ("1k", EINVAL), ("abc", EINVAL), ("-1", EINVAL)),
        *each("cpu.shares", ("18446744073709551615", "262144\n"), ("18446744073709551616", ERANGE)),
        *each("cpu.cfs_quota_us", ("-+5", EINVAL), ("+-5", EINVAL), ("--5", EINVAL)),
        *each(
            "cpu.cfs_quota_us", ("9223372036854775808", ERANGE), ("-9223372036854775809", ERANGE)
        ),
        *each("cpu.cfs_quota_us", ("99999999999999999999x", ERANGE), ("0x", EINVAL)),
    ),
)
_SHARES = Case(
    "shares are clamped; an idle group has none of its own",
    (1,),
    (),
    (
        *each("cpu.shares", ("0", "2\n"), ("1", "2\n"), ("262145", "262144\n"), ("2048", "2048\n")),
        *each("cpu.idle", ("2", EINVAL), ("-1", EINVAL), ("0", "0\n"), ("1", "1\n")),
        *each("cpu.shares", ("1024", EINVAL), ("3", EINVAL), ("", "3\n")),
        *each("cpu.idle", ("1", "1\n"), ("0", "0\n")),
        at("cpu.shares", "", "1024\n"),
    ),
)
_WEIGHT = Case(
    "a weight out of range is refused; an idle group has none of its own",
    (2,),
    (),
    (
        *each("cpu.weight", ("0", ERANGE), ("1", "1\n"), ("10000", "10000\n"), ("10001", ERANGE)),
        *each("cpu.weight", ("-1", EINVAL), ("max", EINVAL), (" 5", EINVAL), ("79\n", "79\n")),
        *each("cpu.idle", ("2", EINVAL), ("-1", EINVAL), ("1", "1\n")),
        at("cpu.weight", "", "0\n", "1\n"),
        *each("cpu.weight", ("100", EINVAL), ("0", ERANGE), ("20000", ERANGE)),
        *each("cpu.idle", ("1", "1\n"), ("0", "0\n")),
        at("cpu.weight", "", "100\n"),
    ),
)
_BANDWIDTH_V1 = Case(
    "quota, period and burst have bounds, and burst is at most quota",
    (1,),
    (),
    (
        *each("cpu.cfs_quota_us", ("999", EINVAL), ("1000", "1000\n"), ("0", EINVAL)),
        *each("cpu.cfs_quota_us", ("-2", "-1\n"), ("max", EINVAL), ("17592186044416", EINVAL)),
        *each("cpu.cfs_quota_us", ("17592186044415", "17592186044415\n"), ("-1", "-1\n")),
        *each("cpu.cfs_period_us", ("999", EINVAL), ("1000", "1000\n"), ("1000001", EINVAL)),
        *each("cpu.cfs_period_us", ("1000000", "1000000\n"), ("0", EINVAL), ("100000", "100000\n")),
        *each("cpu.cfs_burst_us", ("-1", EINVAL), ("200000", "200000\n")),
        *each("cpu.cfs_burst_us", ("18446744073709551", "18446744073709551\n")),
        *each("cpu.cfs_burst_us", ("18446744073709552", EINVAL), ("20001", "20001\n")),
        *each("cpu.cfs_quota_us", ("20000", EINVAL), ("20001", "20001\n"), ("20002", "20002\n")),
        *each("cpu.cfs_burst_us", ("20003", EINVAL), ("20002", "20002\n"), ("0", "0\n")),
    ),
)
_RATIOS_V1 = Case(
    "no group is given more than the nearest limited one above it",
    (1,),
    ("a", "a/b"),
    (
        at("cpu.cfs_quota_us", "50000", "50000\n"),
        *each("a/cpu.cfs_quota_us", ("50001", EINVAL), ("50000", "50000\n")),
        *each("a/b/cpu.cfs_quota_us", ("50001", EINVAL), ("40000", "40000\n")),
        *each("cpu.cfs_quota_us", ("49999", EINVAL), ("60000", "60000\n"), ("50000", "50000\n")),
        *each("a/cpu.cfs_quota_us", ("39999", EINVAL), ("-1", "-1\n")),
        at("a/b/cpu.cfs_quota_us", "50001", EINVAL),
        *each("cpu.cfs_quota_us", ("39999", EINVAL), ("40000", "40000\n")),
        at("a/b/cpu.cfs_period_us", "99999", EINVAL),
        at("cpu.cfs_period_us", "100001", EINVAL),
        *each("a/b/cpu.cfs_quota_us", ("-1", "-1\n")),
        at("cpu.cfs_quota_us", "33333", "33333\n"),
        at("cpu.cfs_period_us", "99999", "99999\n"),
        at("a/cpu.cfs_period_us", "30000", "30000\n"),
        *each("a/cpu.cfs_quota_us", ("10001", EINVAL), ("10000", "10000\n")),
    ),
)
_BANDWIDTH_V2 = Case(
    "cpu.max has quota and period, and the hierarchy refuses nothing",
    (2,),
    ("a",),
    (
        *each("cpu.max", ("50000", "50000 100000\n"), ("max 50000", "max 50000\n")),
        *each("cpu.max", ("20000 40000\n", "20000 40000\n"), (" 30000  60000 ", "30000 60000\n")),
        *each("cpu.max", ("-1", EINVAL), ("", "30000 60000\n"), ("\n", EINVAL), ("0", EINVAL)),
        *each("cpu.max", ("999", EINVAL), ("1000", "1000 60000\n"), ("5000 999", EINVAL)),
        *each("cpu.max", ("5000 1000001", EINVAL), ("5000 1000000", "5000 1000000\n")),
        *each(
            "cpu.max",
            ("5000 x", "5000 1000000\n"),
            ("maximum", EINVAL),
            ("7000us", "7000 1000000\n"),
        ),
        *each("cpu.max", ("max 100000", "max 100000\n"), ("1000 100000", "1000 100000\n")),
        at("a/cpu.max", "90000 100000", "90000 100000\n"),
        *each("a/cpu.max.burst", ("90001", EINVAL), ("90000", "90000\n"), ("-1", EINVAL)),
        *each("a/cpu.max.burst", ("max", EINVAL), ("50000", "50000\n")),
        *each("a/cpu.max", ("40000", EINVAL), ("max", "max 100000\n"), ("40000", EINVAL)),
        *each("a/cpu.max.burst", ("0", "0\n")),
        at("a/cpu.max", "40000", "40000 100000\n"),
    ),
)
_LISTS = (
    *each("a/cpuset.cpus", ("1,0", "0-1\n"), ("0 1", "0-1\n"), (" 0,,1,\n", "0-1\n")),
    *each("a/cpuset.cpus", ("0-1:1/2", "0\n"), ("", "0\n"), ("100000", ERANGE), ("1-0", EINVAL)),
    *each("a/cpuset.cpus", ("0-", EINVAL), ("-1", EINVAL), ("0x1", EINVAL), ("a", EINVAL)),
    *each("a/cpuset.cpus", ("4294967296", EOVERFLOW), ("0-1:2/1", EINVAL), ("0-1:1/0", EINVAL)),
    *each("a/cpuset.cpus", ("1,100000", ERANGE), ("\n", "\n"), ("1", "1\n")),
    *each("a/cpuset.mems", ("0", "0\n"), ("100000", ERANGE), ("x", EINVAL)),
)
_CPUSET_LISTS = Case("lists are normalised", (1, 2), ("a",), _LISTS)
_CPUSET_V1 = Case(
    "cpusets nest, and processes need one",
    (1,),
    ("a", "a/b"),
    (
        *each("a/b/cpuset.cpus", ("1", "1\n")),
        *each("a/cpuset.cpus", ("0", EBUSY), ("\n", EBUSY), ("1", "1\n")),
        *each("a/b/cpuset.cpus", ("0", EACCES), ("0-1", EACCES), ("\n", "\n")),
        at("a/b/cpuset:tasks", PID, ENOSPC),
        at("a/cpuset.mems", "\n", EBUSY),
        *each("a/b/cpuset.mems", ("\n", "\n")),
        *each("a/cpuset.mems", ("\n", "\n"), ("0", "0\n")),
        *each("a/cpuset:tasks", (PID, f"{PID}\n")),
        *each("a/cpuset.cpus", ("\n", ENOSPC), ("0", "0\n"), ("0", "0\n")),
        at("a/cpuset.mems", "\n", ENOSPC),
        at("cpuset.cpus", "1", EBUSY),
        at("cpuset.cpus", "\n", EBUSY),
        at("cpuset.effective_cpus", "0", EINVAL),
        mkdir("a/c", "cpuset"),
        at("a/c/cpuset.cpus", "", "\n"),
    ),
)
_CPUSET_V2 = Case(
    "cpusets that do not nest fall back to what is above them",
    (2,),
    ("a", "a/b"),
    (
        at("a/cpuset.cpus", "", "\n"),
        at("a/cpuset.cpus.effective", "", "0-1\n"),
        at("a/b/cpuset.cpus", "1", "1\n"),
        *each("a/cpuset.cpus", ("0", "0\n")),
        at("a/b/cpuset.cpus", "", "1\n"),
        at("a/b/cpuset.cpus.effective", "", "0\n"),
        at("a/b/cpuset.cpus", "0-1", "0-1\n"),
        at("a/b/cpuset.cpus.effective", "", "0\n"),
        at("a/b/cpuset.cpus.effective", "0", EINVAL),
        at("a/cpuset.cpus", "\n", "\n"),
        at("a/b/cpuset.cpus.effective", "", "0-1\n"),
        at("a/b/cgroup.procs", PID, f"{PID}\n"),
        # Refused by 6.1, though what is above would do; newer kernels may take it.
        at("a/b/cpuset.cpus", "\n", ENOSPC, "\n"),
        at("a/b/cpuset.mems", "\n", "\n"),
    ),
)
_MEMORY_SIZES = (
    ("1M", 1 << 20), ("2m", 2 << 20), ("3G", 3 << 30), ("1T", 1 << 40), ("1P", 1 << 50),
    ("1E", 1 << 60), (" 8388608 \n", 8 << 20), ("8388609", 8 << 20), ("0x800000", 8 << 20),
    ("040000000", 8 << 20), ("99999999999999999999999", 200376420520685568),
    ("9223372036854771711", 9223372036854767616),
)  # fmt: skip
_BAD_SIZES = ("1MB", "1 M", "1.5G", "abc", "+8388608", "-2", "1Mi")
_MEMORY_V1 = Case(
    "a limit is at most memsw, sizes have suffixes, pages are rounded down",
    (1,),
    (),
    (
        *each("memory.limit_in_bytes", *((text, f"{size}\n") for text, size in _MEMORY_SIZES)),
        *each("memory.limit_in_bytes", *((text, EINVAL) for text in _BAD_SIZES), ("max", EINVAL)),
        *each(
            "memory.limit_in_bytes", ("-1", _UNLIMITED), ("8E", _UNLIMITED), ("1G", "1073741824\n")
        ),
        *each("memory.memsw.limit_in_bytes", ("1023M", EINVAL), ("1G", "1073741824\n")),
        *each("memory.limit_in_bytes", ("-1", EINVAL), ("1073745920", EINVAL)),
        *each("memory.limit_in_bytes", ("100M", "104857600\n")),
        *each("memory.memsw.limit_in_bytes", ("100M", "104857600\n"), ("-1", _UNLIMITED)),
        *each("memory.limit_in_bytes", ("2G", "2147483648\n")),
        at("memory.usage_in_bytes", "0", EINVAL),
    ),
)
_MEMORY_V2 = Case(
    "bounds take sizes and max, whatever the others are",
    (2,),
    ("a",),
    (
        *each("memory.max", *((text, f"{size}\n") for text, size in _MEMORY_SIZES)),
        *each("memory.max", *((text, EINVAL) for text in (*_BAD_SIZES, "-1"))),
        *each("memory.max", ("8E", "max\n"), ("1G", "1073741824\n"), ("max\n", "max\n")),
        *each("memory.high", ("1G", "1073741824\n"), ("-1", EINVAL), ("max", "max\n")),
        *each("memory.min", ("1G", "1073741824\n"), ("max", "max\n"), ("4097", "4096\n")),
        *each("memory.low", ("0", "0\n"), ("2G", "2147483648\n"), ("", "2147483648\n")),
        *each("a/memory.low", ("4G", "4294967296\n")),
        *each("a/memory.max", ("0", "0\n"), ("\n", "0\n"), ("max", "max\n")),
        *each("memory.oom.group", ("1", "1\n"), ("2", EINVAL), ("-1", EINVAL), (" 0 \n", "0\n")),
        at("memory.current", "0", EINVAL),
        at("memory.nothing", "0", ENOENT),
    ),
)
_DISKS_V1 = Case(
    "a limit names a disk that is there",
    (1,),
    (),
    (
        *each("blkio.throttle.read_bps_device", ("254:0 1048576", "254:0 1048576\n")),
        *each("blkio.throttle.read_bps_device", ("254:0  7 x\n", "254:0 7\n"), ("254:0 0", "")),
        *each("blkio.throttle.read_bps_device", ("99:99 5", ENODEV), ("254:0", EINVAL)),
        *each("blkio.throttle.read_bps_device", ("254:0 max", EINVAL), ("254:0 -1", EINVAL)),
        *each("blkio.throttle.read_bps_device", ("x", EINVAL), ("254:0 18446744073709551615", "")),
        *each("blkio.throttle.write_iops_device", ("254:0 100", "254:0 100\n")),
        *each("blkio.throttle.write_iops_device", ("254:0 4294967295", "")),
        *each("blkio.throttle.write_iops_device", ("254:0 4294967296", "254:0 0\n")),
    ),
)
_DISKS_V2 = Case(
    "io.max names a disk that is there, and what is limited",
    (2,),
    (),
    (
        *each("io.max", ("254:0 rbps=4096", "254:0 rbps=4096 wbps=max riops=max wiops=max\n")),
        *each("io.max", ("254:0 wiops=5\n", "254:0 rbps=4096 wbps=max riops=max wiops=5\n")),
        *each("io.max", ("254:0 rbps=max wiops=max", ""), ("99:99 rbps=5", ENODEV)),
        *each("io.max", ("254:0", EINVAL), ("254:0 rbps=0", ERANGE), ("254:0 rbps", EINVAL)),
        *each("io.max", ("254:0 rbps=1", EINVAL), ("254:0 xbps=7", EINVAL), ("x", EINVAL)),
        *each("io.max", ("254:0 rbps=-1", EINVAL), ("254:0 rbps=9 wbps=0", ERANGE)),
        at("io.max", "", ""),
    ),
)
_IO_WEIGHT = Case(
    "io.weight has a default and disks of their own",
    (2,),
    (),
    (
        *each("io.weight", ("200", "default 200\n"), ("default 50", "default 50\n")),
        *each("io.weight", ("0", EINVAL), ("10001", EINVAL), ("x", EINVAL)),
        # Disks take one only once their cost model is on.
        *each("io.weight", ("254:0 300", EOPNOTSUPP), ("99:99 5", ENODEV), ("", "default 50\n")),
    ),
)
_DIRECTORIES_V1 = Case(
    "groups are removed empty and from below",
    (1,),
    ("a", "a/b"),
    (
        mkdir("a", "cpu", EEXIST),
        mkdir("x/y", "cpu", ENOENT),
        mkdir("a/tasks", "cpu", EEXIST),
        mkdir("a/tasks/x", "cpu", ENOTDIR),
        mkdir("a/new\nline", "cpu", EINVAL),
        rmdir("a", "cpu", EBUSY),
        rmdir("a/tasks", "cpu", ENOTDIR),
        rmdir("a/x", "cpu", ENOENT),
        at("a/b/cpu:cgroup.procs", PID, f"{PID}\n"),
        rmdir("a/b", "cpu", EBUSY),
        at("a/cpu:tasks", PID, f"{PID}\n"),
        rmdir("a/b", "cpu"),
        rmdir("a", "cpu", EBUSY),
        at("a/b/cpu.shares", "2", ENOENT),
        at("a/cpu.nothing", "2", ENOENT),
        at("a/cpu.max", "max", ENOENT),
        at("a/cpu.shares/x", "2", ENOENT, ENOTDIR),
        at("a/cpu:cgroup.procs", "-1", EINVAL),
        at("a/cpu:cgroup.procs", "x", EINVAL),
        at("a/cpu:cgroup.procs", f"{PID} {PID}", EINVAL),
        at("a/cpu:cgroup.procs", "4194305", ESRCH),
        at("a/cpu:cgroup.procs", f" {PID}\n", f"{PID}\n"),
        at("a/cpu:", "2", EISDIR),
    ),
)
_DIRECTORIES_V2 = Case(
    "processes are in leaves, and controllers where they are given",
    (2,),
    ("a", "a/b"),
    (
        mkdir("a", "", EEXIST),
        mkdir("x/y", "", ENOENT),
        mkdir("a/cgroup.procs", "", EEXIST),
        rmdir("a", "", EBUSY),
        at("a/cgroup.procs", PID, EBUSY),
        at("a/b/cgroup.procs", PID, f"{PID}\n"),
        rmdir("a/b", "", EBUSY),
        mkdir("a/b/c", ""),
        at("a/b/c/cpu.weight", "1", ENOENT),
        at("a/b/c/cpu.pressure", "", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
           "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
        at("a/b/cgroup.subtree_control", "+memory", EBUSY),
        at("a/b/cgroup.subtree_control", "+cpu", "cpu\n"),
        at("a/b/cgroup.subtree_control", "+memory", EOPNOTSUPP),
        at("a/b/c/cgroup.subtree_control", "+cpu", EOPNOTSUPP),
        at("a/b/c/cpu.weight", "7", "7\n"),
        at("a/b/cgroup.procs", PID, f"{PID}\n"),
        at("a/b/c/cgroup.procs", PID, EOPNOTSUPP),
        mkdir("d", ""),
        at("d/cgroup.procs", PID, f"{PID}\n"),
        at("a/b/c/cgroup.procs", PID, f"{PID}\n"),
        at("a/b/cgroup.procs", PID, EBUSY),
        at("a/b/cgroup.subtree_control", "-cpu", ""),
        at("a/b/c/cpu.weight", "7", ENOENT),
        at("a/b/c/cgroup.subtree_control", "+cpu", ENOENT),
        at("a/b/cgroup.subtree_control", "+nothing", EINVAL),
        at("a/b/cgroup.subtree_control", "cpu", EINVAL),
        at("a/cgroup.subtree_control", "-cpu", "cpuset io memory pids\n"),
        at("a/b/cpu.weight", "7", ENOENT),
        at("a/b/memory.low", "4096", "4096\n"),
        at("a/cgroup.subtree_control", "+cpu -memory", "cpuset cpu io pids\n"),
        at("a/cgroup.subtree_control", "+memory", "cpuset cpu io memory pids\n"),
        at("a/b/memory.low", "", "0\n"),
        at("a/b/cpu.weight", "", "100\n"),
        at("cgroup.subtree_control", "-memory", EBUSY),
        at("a/cpu.shares", "7", ENOENT),
        at("a/tasks", PID, ENOENT),
        at("a/b/cgroup.procs", "4194305", ESRCH),
        at("a/b/c/cgroup.procs", "-1", EINVAL),
    ),
)  # fmt: skip

CASES = (
    _PLAIN_NUMBERS, _SHARES, _WEIGHT, _BANDWIDTH_V1, _RATIOS_V1, _BANDWIDTH_V2, _CPUSET_LISTS,
    _CPUSET_V1, _CPUSET_V2, _MEMORY_V1, _MEMORY_V2, _DISKS_V1, _DISKS_V2, _IO_WEIGHT,
    _DIRECTORIES_V1, _DIRECTORIES_V2,
)  # fmt: skip
