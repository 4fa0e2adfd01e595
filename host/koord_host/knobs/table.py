"""The table of knobs: one row a kernel file, for both cgroup versions.

Ranges are the kernel's, or Koordinator's where the kernel takes anything. A new
knob is a new row. Files to be written are named here, and for resctrl in ``resctrl``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from koord_host.knobs.device_forms import COST_MODEL, COST_QOS, IO_LATENCY, IO_MAX, WEIGHTS
from koord_host.knobs.forms import (
    BYTES_V1,
    BYTES_V2,
    BYTES_VENDOR,
    CPU_MASK,
    CPUS,
    DEVICES,
    NO_LIMIT,
    NUMBER,
    PERIOD_V2,
    QUOTA_V2,
    TEXT,
    WEIGHT_V2,
    WORDS,
    Form,
    Value,
)


class PlaceKind(Enum):
    """Kind of a knob's place."""

    CGROUP = "cgroup"  # a path under the cgroup root
    PROCESS = "process"  # a process that was listed: ``processes.Process.place``
    SYSCTL = "sysctl"  # a sysctl's name, with dots
    FILE = "file"  # an absolute path, for agents that read files
    DIRECTORY = "directory"  # the absolute path of a directory of the kernel's


class MergeRule(Enum):
    """Rule by which different values desired for one target become one."""

    LEAST = "least"  # the strictest limit; -1 is no limit
    MOST = "most"  # the strongest protection
    INTERSECTION = "intersection"  # the CPUs that all of them allow
    PRIORITY = "priority"  # the owner with the highest priority


class Nesting(Enum):
    """Relation of a group's value to its parent's, which decides the order of changes."""

    FREE = "free"
    WITHIN = "within"  # never more than the parent has


class DriftPolicy(Enum):
    """Reaction to a value that somebody else has put in place of ours."""

    HOLD = "hold"  # ours is written again; repeated drift is reported
    YIELD = "yield"  # theirs stays until another value is desired
    ALERT = "alert"  # theirs stays too, with a warning in the log


@dataclass(frozen=True, slots=True)
class Knob:
    """One row: where it is, how it reads, what it may be, who wins.

    ``v1`` and ``v2`` are file names, "" where that version has none. ``low`` and
    ``high`` bound numbers; ``unlimited`` is whether -1 is a value. ``root`` is whether
    only the root group has the file. ``one_shot``: a write is done once and leaves no
    state; the file cannot be read. ``kubelet`` is whether the kubelet writes it too, itself or
    through the container runtime: when a pod starts, is resized, or its class is updated.
    """

    name: str
    v1: str
    v2: str
    rule: MergeRule
    where: PlaceKind = PlaceKind.CGROUP
    subsystem: str = ""
    v1_form: Form = NUMBER
    v2_form: Form = NUMBER
    low: int | None = None
    high: int | None = None
    unlimited: bool = False
    nesting: Nesting = Nesting.FREE
    on_drift: DriftPolicy = DriftPolicy.HOLD
    root: bool = False
    one_shot: bool = False
    kubelet: bool = False

    def file(self, version: int) -> str:
        """The file's name on a cgroup version, "" where it has none."""
        return self.v2 if version == 2 else self.v1

    def form(self, version: int) -> Form:
        """Return the file's format on a cgroup version; of a group's shares, ``Layout`` knows."""
        return self.v2_form if version == 2 else self.v1_form

    def check(self, value: Value) -> None:
        """See that the value can be written.

        Raises:
            ValueError: out of range, or of another kind; names the knob and the range.
        """
        if self.v1_form.text:
            self._check_text(value)
        else:
            self._check_number(value)

    def _check_text(self, value: Value) -> None:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{self.name}: {value!r} is not a valid text")
        try:
            self.v1_form.encode(value, "")
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def _check_number(self, value: Value) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{self.name}: {value!r} is not a whole number")  # noqa: TRY004 - bad input
        if self.unlimited and value == NO_LIMIT:
            return
        low = -(1 << 63) if self.low is None else self.low
        high = (1 << 63) - 1 if self.high is None else self.high
        if not low <= value <= high:
            raise ValueError(f"{self.name}: {value} is out of range; expected {self._range()}")

    def _range(self) -> str:
        low = "any" if self.low is None else self.low
        high = "any" if self.high is None else self.high
        bounds = f"{low} to {high}"
        return f"{bounds}, or -1 for no limit" if self.unlimited else bounds


def _cpu(name: str, v2: str, rule: MergeRule, **more: object) -> Knob:
    return Knob(name, name, v2, rule, subsystem="cpu", **more)  # type: ignore[arg-type]


def _memory(name: str, rule: MergeRule, v2: str | None = None, **more: object) -> Knob:
    file = name if v2 is None else v2
    return Knob(name, name, file, rule, subsystem="memory", **more)  # type: ignore[arg-type]


def _bytes(name: str, rule: MergeRule, v2: str | None = None, **more: object) -> Knob:
    return _memory(name, rule, v2, v1_form=BYTES_V1, v2_form=BYTES_V2, low=0, **more)


def _protected(name: str, rule: MergeRule, **more: object) -> Knob:
    return replace(_bytes(name, rule, name, **more), v1_form=BYTES_VENDOR)


def _io(name: str, v1: str, v2: str, form: Form, rule: MergeRule = MergeRule.PRIORITY) -> Knob:
    return Knob(name, v1, v2, rule, subsystem="blkio", v1_form=form, v2_form=form)


def _throttle(way: str, unit: str) -> Knob:
    name, form = f"blkio.throttle.{way}_{unit}_device", IO_MAX[f"{way[0]}{unit}"]
    return replace(_io(name, name, "io.max", form, MergeRule.LEAST), v1_form=DEVICES)


def _kernel_file(name: str, file: str, form: Form) -> Knob:
    """A file in a directory of the kernel's that comes and goes, as that of an interrupt."""
    return Knob(
        name, file, file, MergeRule.PRIORITY, PlaceKind.DIRECTORY, v1_form=form, v2_form=form
    )


_ROWS = (
    _cpu(
        "cpu.shares",
        "cpu.weight",
        MergeRule.PRIORITY,
        v2_form=WEIGHT_V2,
        low=2,
        high=262144,
        kubelet=True,
    ),
    _cpu(
        "cpu.cfs_quota_us",
        "cpu.max",
        MergeRule.PRIORITY,
        v2_form=QUOTA_V2,
        low=1000,
        unlimited=True,
        nesting=Nesting.WITHIN,
        kubelet=True,
    ),
    _cpu(
        "cpu.cfs_period_us",
        "cpu.max",
        MergeRule.PRIORITY,
        v2_form=PERIOD_V2,
        low=1000,
        high=10**6,
        kubelet=True,
    ),
    _cpu("cpu.cfs_burst_us", "cpu.max.burst", MergeRule.PRIORITY, low=0, high=10**8),
    # In some vendors' kernels only, as memory.wmark_*, .priority, .use_priority_oom and
    # .pagecache_limit.* and v1's blkio.cost.* are: looked for by ``detect.knobs``.
    _cpu("cpu.bvt_warp_ns", "cpu.bvt_warp_ns", MergeRule.PRIORITY, low=-1, high=2),
    _cpu("cpu.idle", "cpu.idle", MergeRule.PRIORITY, low=0, high=1),
    Knob(
        "cpuset.cpus",
        "cpuset.cpus",
        "cpuset.cpus",
        MergeRule.INTERSECTION,
        subsystem="cpuset",
        v1_form=CPUS,
        v2_form=CPUS,
        nesting=Nesting.WITHIN,
        kubelet=True,
    ),
    Knob(
        "cpuset.mems",
        "cpuset.mems",
        "cpuset.mems",
        MergeRule.INTERSECTION,
        subsystem="cpuset",
        v1_form=CPUS,
        v2_form=CPUS,
        nesting=Nesting.WITHIN,
        kubelet=True,
    ),
    _bytes("memory.limit_in_bytes", MergeRule.LEAST, "memory.max", unlimited=True, kubelet=True),
    _bytes("memory.memsw.limit_in_bytes", MergeRule.LEAST, "", unlimited=True, kubelet=True),
    # On v1 in some vendors' kernels only. The kubelet's with its gate MemoryQoS.
    _protected("memory.min", MergeRule.MOST, nesting=Nesting.WITHIN, kubelet=True),
    _protected("memory.low", MergeRule.MOST, nesting=Nesting.WITHIN, kubelet=True),
    _protected("memory.high", MergeRule.LEAST, unlimited=True, kubelet=True),
    _memory("memory.wmark_ratio", MergeRule.PRIORITY, low=0, high=100),
    _memory("memory.wmark_scale_factor", MergeRule.PRIORITY, low=1, high=1000),
    _memory("memory.wmark_min_adj", MergeRule.PRIORITY, low=-25, high=50),
    _memory("memory.priority", MergeRule.PRIORITY, low=0, high=12),
    _memory("memory.use_priority_oom", MergeRule.PRIORITY, low=0, high=1),
    Knob(
        "memory.reclaim",
        "",
        "memory.reclaim",
        MergeRule.MOST,
        subsystem="memory",
        low=1,
        one_shot=True,
    ),
    _memory("memory.oom.group", MergeRule.PRIORITY, low=0, high=1, kubelet=True),
    _memory("memory.pagecache_limit.enable", MergeRule.PRIORITY, low=0, high=1),
    _bytes("memory.pagecache_limit.size", MergeRule.LEAST),
    _memory("memory.pagecache_limit.sync", MergeRule.PRIORITY, low=0, high=1),
    *(_throttle(way, unit) for way in ("read", "write") for unit in ("iops", "bps")),
    # A disk takes a weight of its own while its cost.qos is on, on v1 in vendors' kernels only.
    _io("blkio.cost.weight", "blkio.cost.weight", "io.weight", WEIGHTS),
    replace(_io("blkio.cost.qos", "blkio.cost.qos", "io.cost.qos", COST_QOS), root=True),
    replace(_io("blkio.cost.model", "blkio.cost.model", "io.cost.model", COST_MODEL), root=True),
    _io("io.latency", "", "io.latency", IO_LATENCY, MergeRule.LEAST),
    Knob("net_cls.classid", "net_cls.classid", "", MergeRule.PRIORITY, subsystem="net_cls", low=0),
    Knob(
        "oom_score_adj",
        "oom_score_adj",
        "oom_score_adj",
        MergeRule.PRIORITY,
        PlaceKind.PROCESS,
        low=-1000,
        high=1000,
    ),
    Knob(
        "sysctl",
        "",
        "",
        MergeRule.PRIORITY,
        PlaceKind.SYSCTL,
        v1_form=WORDS,
        v2_form=WORDS,
        # People and configuration management set these: do not overwrite their values.
        on_drift=DriftPolicy.ALERT,
    ),
    Knob("file", "", "", MergeRule.PRIORITY, PlaceKind.FILE, v1_form=TEXT, v2_form=TEXT),
    # Its two system calls stand for a file (``kernel``).
    Knob(
        "ksoftirqd.nice",
        "nice",
        "nice",
        MergeRule.PRIORITY,
        PlaceKind.PROCESS,
        low=-20,
        high=19,
    ),
    _kernel_file("irq.smp_affinity_list", "smp_affinity_list", CPUS),
    _kernel_file("rps_cpus", "rps_cpus", CPU_MASK),
    _kernel_file("xps_cpus", "xps_cpus", CPU_MASK),
)

KNOBS = {knob.name: knob for knob in _ROWS}
"""All knobs by name."""
