"""io.cost: what a disk's operations cost, and how late they may be; of the machine, not a group.

The rules are those of block/blk-iocost.c. A disk has no line before the first write
about it; what ``ctrl`` leaves to the kernel is shown as it chooses it for an SSD.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field

from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import U64_MAX, refuse

_SPLIT = re.compile(r"\s*(\d+):(\d+)\s+(.*)", re.DOTALL)
_PERCENT = re.compile(r"(\d+)(?:\.(\d*))?")
#: Of a hundredth of a percent: vrate is kept within 1 and 10000 percent.
_LEAST_RATE, _MOST_RATE = 100, 1_000_000
_USUAL = {
    "qos": {"rpct": 0, "rlat": 25_000, "wpct": 0, "wlat": 25_000, "min": 100, "max": 1_000_000},
    "model": {
        "rbps": 488_636_629, "rseqiops": 8932, "rrandiops": 8518,
        "wbps": 427_891_549, "wseqiops": 28_755, "wrandiops": 21_940,
    },
}  # fmt: skip


@dataclass(slots=True)
class Cost:
    """One disk's, by file; percentages are in hundredths."""

    enabled: bool = False
    user: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(_USUAL, False))
    values: dict[str, dict[str, int]] = field(default_factory=lambda: dict(_USUAL))


def _of(group: Group, text: str) -> tuple[Cost, list[str]]:
    """The disk a line is about, and the rest of the line."""
    match = _SPLIT.match(text)
    if match is None:
        refuse(errno.EINVAL)
    device = f"{int(match[1])}:{int(match[2])}"
    if device not in group.machine.devices:
        refuse(errno.ENODEV)
    return group.machine.costs.setdefault(device, Cost()), match[3].split()


def _count(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) > U64_MAX:
        refuse(errno.EINVAL)
    return int(text)


def _value(key: str, text: str) -> int:
    if key not in ("rpct", "wpct", "min", "max"):
        return _count(text)
    match = _PERCENT.fullmatch(text)
    if match is None:
        refuse(errno.EINVAL)
    value = int(match[1]) * 100 + int(f"{match[2] or ''}00"[:2])
    if not key.endswith("pct"):
        return min(max(value, _LEAST_RATE), _MOST_RATE)
    if value > 10_000:
        refuse(errno.EINVAL)
    return value


def _file(name: str) -> File:
    usual = _USUAL[name]

    def write(group: Group, text: str) -> None:
        cost, tokens = _of(group, text)
        enabled, user, values = cost.enabled, cost.user[name], dict(cost.values[name])
        for token in tokens:
            key, _, value = token.partition("=")
            if key == "enable" and name == "qos":
                enabled = bool(_count(value))
            elif key == "ctrl" and value in ("auto", "user"):
                user = value == "user"
            elif key in usual:
                values[key], user = _value(key, value), True
            elif token != "model=linear" or name != "model":
                refuse(errno.EINVAL)
        if values.get("min", 0) > values.get("max", 0):
            refuse(errno.EINVAL)
        cost.enabled, cost.user[name] = enabled, user
        cost.values[name] = values if user else usual

    def read(group: Group) -> str:
        return "".join(f"{device} {shown(cost)}\n" for device, cost in group.machine.costs.items())

    def shown(cost: Cost) -> str:
        control = f"ctrl={'user' if cost.user[name] else 'auto'}"
        first = (
            f"enable={int(cost.enabled)} {control}" if name == "qos" else f"{control} model=linear"
        )
        pairs = cost.values[name].items()
        return " ".join((first, *(f"{key}={_shown(key, value)}" for key, value in pairs)))

    return File(read, write)


def _shown(key: str, value: int) -> str:
    percent = key in ("rpct", "wpct", "min", "max")
    return f"{value // 100}.{value % 100:02}" if percent else str(value)


#: Only the root has them; v1 in vendors' kernels alone.
V2_ROOT = {f"io.cost.{name}": _file(name) for name in _USUAL}
V1_VENDOR_ROOT = {f"blkio.cost.{name}": _file(name) for name in _USUAL}
