"""io.cost: what a disk's operations cost, and how late they may be; of the machine, not a group.

The rules are those of block/blk-iocost.c. A disk has no line before the first write
about it; what ``ctrl`` leaves to the kernel is shown as it chooses it for an SSD.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import U64_MAX, refuse

_SPLIT = re.compile(r"\s*(\d+):(\d+)\s+(.*)", re.DOTALL)
_PERCENT = re.compile(r"(\d+)(?:\.(\d*))?")
#: Of a hundredth of a percent: vrate is kept within 1 and 10000 percent.
_LEAST_RATE, _MOST_RATE = 100, 1_000_000
_QOS = {"rpct": 0, "rlat": 25_000, "wpct": 0, "wlat": 25_000, "min": 100, "max": 1_000_000}
_MODEL = {
    "rbps": 488_636_629, "rseqiops": 8932, "rrandiops": 8518,
    "wbps": 427_891_549, "wseqiops": 28_755, "wrandiops": 21_940,
}  # fmt: skip


@dataclass(slots=True)
class Cost:
    """One disk's; percentages are in hundredths."""

    enabled: bool = False
    user_qos: bool = False
    user_model: bool = False
    qos: dict[str, int] = field(default_factory=lambda: dict(_QOS))
    model: dict[str, int] = field(default_factory=lambda: dict(_MODEL))


def _of(group: Group, text: str) -> tuple[Cost, list[str]]:
    """The disk a line is about, and the rest of the line."""
    match = _SPLIT.match(text)
    if match is None:
        refuse(errno.EINVAL)
    device = f"{int(match[1])}:{int(match[2])}"
    if device not in group.machine.devices:
        refuse(errno.ENODEV)
    return group.machine.costs.setdefault(device, Cost()), match[3].split()


def _hundredths(text: str) -> int:
    match = _PERCENT.fullmatch(text)
    if match is None:
        refuse(errno.EINVAL)
    return int(match[1]) * 100 + int(f"{match[2] or ''}00"[:2])


def _count(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) > U64_MAX:
        refuse(errno.EINVAL)
    return int(text)


def _control(text: str) -> bool:
    if text not in ("auto", "user"):
        refuse(errno.EINVAL)
    return text == "user"


def _write_qos(group: Group, text: str) -> None:
    cost, tokens = _of(group, text)
    enabled, user, qos = cost.enabled, cost.user_qos, dict(cost.qos)
    for token in tokens:
        key, _, value = token.partition("=")
        if key == "enable":
            enabled = bool(_count(value))
        elif key == "ctrl":
            user = _control(value)
        elif key in _QOS:
            qos[key] = _qos_value(key, value)
            user = True
        else:
            refuse(errno.EINVAL)
    if qos["min"] > qos["max"]:
        refuse(errno.EINVAL)
    cost.enabled, cost.user_qos = enabled, user
    cost.qos = qos if user else dict(_QOS)


def _qos_value(key: str, text: str) -> int:
    if key.endswith("lat"):
        return _count(text)
    value = _hundredths(text)
    if key.endswith("pct"):
        if value > 10_000:
            refuse(errno.EINVAL)
        return value
    return min(max(value, _LEAST_RATE), _MOST_RATE)


def _read_qos(group: Group) -> str:
    return "".join(f"{device} {_qos(cost)}\n" for device, cost in group.machine.costs.items())


def _qos(cost: Cost) -> str:
    shown = {
        key: value if key.endswith("lat") else f"{value // 100}.{value % 100:02}"
        for key, value in cost.qos.items()
    }
    keys = " ".join(f"{key}={value}" for key, value in shown.items())
    return f"enable={int(cost.enabled)} ctrl={'user' if cost.user_qos else 'auto'} {keys}"


def _write_model(group: Group, text: str) -> None:
    cost, tokens = _of(group, text)
    user, model = cost.user_model, dict(cost.model)
    for token in tokens:
        key, _, value = token.partition("=")
        if key == "ctrl":
            user = _control(value)
        elif key == "model":
            if value != "linear":
                refuse(errno.EINVAL)
        elif key in _MODEL:
            model[key], user = _count(value), True
        else:
            refuse(errno.EINVAL)
    cost.user_model = user
    cost.model = model if user else dict(_MODEL)


def _read_model(group: Group) -> str:
    return "".join(f"{device} {_model(cost)}\n" for device, cost in group.machine.costs.items())


def _model(cost: Cost) -> str:
    keys = " ".join(f"{key}={value}" for key, value in cost.model.items())
    return f"ctrl={'user' if cost.user_model else 'auto'} model=linear {keys}"


_FILES: dict[str, tuple[Callable[[Group], str], Callable[[Group, str], None]]] = {
    "cost.qos": (_read_qos, _write_qos),
    "cost.model": (_read_model, _write_model),
}
#: Only the root has them; v1 in vendors' kernels alone.
V2_ROOT = {f"io.{name}": File(*both) for name, both in _FILES.items()}
V1_VENDOR_ROOT = {f"blkio.{name}": File(*both) for name, both in _FILES.items()}
