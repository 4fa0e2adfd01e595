"""The table of knobs: one row a kernel file, for both cgroup versions.

Ranges are the kernel's, or Koordinator's where the kernel takes anything. A new
knob is a new row; nothing else in the project names kernel files to be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from koord_model import cpuset

from koord_host.forms import (
    BYTES_V1,
    CPUS,
    LIMIT_V2,
    NO_LIMIT,
    NUMBER,
    PERIOD_V2,
    QUOTA_V2,
    TEXT,
    WEIGHT_V2,
    Form,
    Value,
    same,
)


class Where(Enum):
    """What a knob's place is."""

    CGROUP = "cgroup"  # a path under the cgroup root
    PROCESS = "process"  # a PID
    RESCTRL = "resctrl"  # a resctrl group, "" for the root group
    SYSCTL = "sysctl"  # a sysctl's name, with dots
    FILE = "file"  # an absolute path, for agents that read files


class Rule(Enum):
    """How different wishes for one target become one."""

    LEAST = "least"  # the strictest limit; -1 is no limit
    MOST = "most"  # the strongest protection
    INTERSECTION = "intersection"  # the CPUs that all of them allow
    PRIORITY = "priority"  # the owner with the highest priority


class Nesting(Enum):
    """How a group's value is bound to its parent's: in what order they change."""

    FREE = "free"
    WITHIN = "within"  # never more than the parent has


@dataclass(frozen=True, slots=True)
class Knob:
    """One row: where it is, how it reads, what it may be, who wins.

    ``v1`` and ``v2`` are file names, "" where that version has none. ``low`` and
    ``high`` bound numbers; ``unlimited`` is whether -1 is a value. ``vendor`` knobs are
    in some vendors' kernels only.
    """

    name: str
    v1: str
    v2: str
    rule: Rule
    where: Where = Where.CGROUP
    subsystem: str = ""
    v1_form: Form = NUMBER
    v2_form: Form = NUMBER
    low: int | None = None
    high: int | None = None
    unlimited: bool = False
    nesting: Nesting = Nesting.FREE
    vendor: bool = False

    def file(self, version: int) -> str:
        """The file's name on a cgroup version, "" where it has none."""
        return self.v2 if version == 2 else self.v1

    def form(self, version: int) -> Form:
        """How the file reads on a cgroup version."""
        return self.v2_form if version == 2 else self.v1_form

    def check(self, value: Value) -> None:
        """See that the value can be written.

        Raises:
            ValueError: out of range, or of another kind; names the knob and the range.
        """
        if self.v1_form is CPUS:
            _check_cpus(self.name, value)
        elif self.v1_form is TEXT:
            if not isinstance(value, str) or not value:
                raise ValueError(f"{self.name}: {value!r} is no text")
        else:
            self._check_number(value)

    def _check_number(self, value: Value) -> None:
        if not isinstance(value, int):
            raise ValueError(f"{self.name}: {value!r} is no whole number")  # noqa: TRY004 - bad input
        if self.unlimited and value == NO_LIMIT:
            return
        low = -(1 << 63) if self.low is None else self.low
        high = (1 << 63) - 1 if self.high is None else self.high
        if not low <= value <= high:
            raise ValueError(f"{self.name}: {value} is out of range; expected {self._range()}")

    def _range(self) -> str:
        bounds = f"{'any' if self.low is None else self.low} to {self.high or 'any'}"
        return f"{bounds}, or -1 for no limit" if self.unlimited else bounds

    def holds(self, value: Value, text: str, version: int) -> bool:
        """Whether a file's text already means ``value``.

        Compared as the file spells it: shares and weights do not map one to one.
        """
        form = self.form(version)
        try:
            current = form.decode(text)
            return same(form.decode(form.encode(value, text)), current)
        except ValueError:
            return False


def _check_cpus(name: str, value: Value) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: {value!r} is no CPU list")
    cpuset.parse(value)


def _cpu(name: str, v2: str, rule: Rule, **more: object) -> Knob:
    return Knob(name, name, v2, rule, subsystem="cpu", **more)  # type: ignore[arg-type]


def _memory(name: str, rule: Rule, v2: str | None = None, **more: object) -> Knob:
    file = name if v2 is None else v2
    return Knob(name, name, file, rule, subsystem="memory", **more)  # type: ignore[arg-type]


def _throttle(name: str) -> Knob:
    return Knob(name, name, "", Rule.LEAST, subsystem="blkio", v1_form=TEXT)


_ROWS = (
    _cpu("cpu.shares", "cpu.weight", Rule.PRIORITY, v2_form=WEIGHT_V2, low=2, high=262144),
    _cpu(
        "cpu.cfs_quota_us",
        "cpu.max",
        Rule.PRIORITY,
        v2_form=QUOTA_V2,
        low=1000,
        unlimited=True,
        nesting=Nesting.WITHIN,
    ),
    _cpu("cpu.cfs_period_us", "cpu.max", Rule.PRIORITY, v2_form=PERIOD_V2, low=1000, high=10**6),
    _cpu("cpu.cfs_burst_us", "cpu.max.burst", Rule.PRIORITY, low=0, high=10**8),
    _cpu("cpu.bvt_warp_ns", "cpu.bvt_warp_ns", Rule.PRIORITY, low=-1, high=2, vendor=True),
    _cpu("cpu.idle", "cpu.idle", Rule.PRIORITY, low=0, high=1),
    Knob(
        "cpuset.cpus",
        "cpuset.cpus",
        "cpuset.cpus",
        Rule.INTERSECTION,
        subsystem="cpuset",
        v1_form=CPUS,
        v2_form=CPUS,
        nesting=Nesting.WITHIN,
    ),
    Knob(
        "cpuset.mems",
        "cpuset.mems",
        "cpuset.mems",
        Rule.INTERSECTION,
        subsystem="cpuset",
        v1_form=CPUS,
        v2_form=CPUS,
        nesting=Nesting.WITHIN,
    ),
    _memory(
        "memory.limit_in_bytes",
        Rule.LEAST,
        "memory.max",
        v1_form=BYTES_V1,
        v2_form=LIMIT_V2,
        low=0,
        unlimited=True,
    ),
    _memory("memory.memsw.limit_in_bytes", Rule.LEAST, "", v1_form=BYTES_V1, low=0, unlimited=True),
    _memory("memory.min", Rule.MOST, low=0, v2_form=LIMIT_V2, nesting=Nesting.WITHIN),
    _memory("memory.low", Rule.MOST, low=0, v2_form=LIMIT_V2, nesting=Nesting.WITHIN),
    _memory("memory.high", Rule.LEAST, low=0, unlimited=True, v1_form=BYTES_V1, v2_form=LIMIT_V2),
    _memory("memory.wmark_ratio", Rule.PRIORITY, low=0, high=100, vendor=True),
    _memory("memory.wmark_scale_factor", Rule.PRIORITY, low=1, high=1000, vendor=True),
    _memory("memory.wmark_min_adj", Rule.PRIORITY, low=-25, high=50, vendor=True),
    _memory("memory.priority", Rule.PRIORITY, low=0, high=12, vendor=True),
    _memory("memory.use_priority_oom", Rule.PRIORITY, low=0, high=1, vendor=True),
    _memory("memory.oom.group", Rule.PRIORITY, low=0, high=1),
    _memory("memory.pagecache_limit.enable", Rule.PRIORITY, low=0, high=1, vendor=True),
    _memory("memory.pagecache_limit.size", Rule.LEAST, low=0, vendor=True),
    _memory("memory.pagecache_limit.sync", Rule.PRIORITY, low=0, high=1, vendor=True),
    *(
        _throttle(f"blkio.throttle.{way}_{unit}_device")
        for way in ("read", "write")
        for unit in ("iops", "bps")
    ),
    Knob(
        "blkio.cost.weight",
        "blkio.cost.weight",
        "",
        Rule.PRIORITY,
        subsystem="blkio",
        low=1,
        high=100,
        vendor=True,
    ),
    Knob("net_cls.classid", "net_cls.classid", "", Rule.PRIORITY, subsystem="net_cls", low=0),
    Knob(
        "oom_score_adj",
        "oom_score_adj",
        "oom_score_adj",
        Rule.PRIORITY,
        Where.PROCESS,
        low=-1000,
        high=1000,
    ),
    *(
        Knob(
            f"resctrl.{name}", name, name, Rule.PRIORITY, Where.RESCTRL, v1_form=TEXT, v2_form=TEXT
        )
        for name in ("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA", "MB")
    ),
    Knob("sysctl", "", "", Rule.PRIORITY, Where.SYSCTL, v1_form=TEXT, v2_form=TEXT),
    Knob("file", "", "", Rule.PRIORITY, Where.FILE, v1_form=TEXT, v2_form=TEXT),
)

KNOBS = {knob.name: knob for knob in _ROWS}
"""All knobs by name."""
