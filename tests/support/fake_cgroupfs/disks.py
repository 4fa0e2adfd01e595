"""The blkio (v1) and io (v2) controllers: a line per disk."""

from __future__ import annotations

import errno
import re

from tests.support.fake_cgroupfs.group import File, Group
from tests.support.fake_cgroupfs.numerals import U64_MAX, refuse

_DEVICE = re.compile(r"\s*(\d+):(\d+)\s+(.*)", re.DOTALL)
U32_MAX = 2**32 - 1
#: In the order in which ``io.max`` shows them.
RATES = ("rbps", "wbps", "riops", "wiops")
_V1_FILES = {
    "blkio.throttle.read_bps_device": "rbps",
    "blkio.throttle.write_bps_device": "wbps",
    "blkio.throttle.read_iops_device": "riops",
    "blkio.throttle.write_iops_device": "wiops",
}


def _split(group: Group, text: str) -> tuple[str, str]:
    """``<major>:<minor> <rest>``; ENODEV when there is no such disk."""
    match = _DEVICE.match(text)
    if match is None:
        refuse(errno.EINVAL)
    device = f"{int(match[1])}:{int(match[2])}"
    if device not in group.machine.devices:
        refuse(errno.ENODEV)
    _meet(group, device)
    return device, match[3]


def _meet(group: Group, device: str) -> None:
    """Note the disk in the group and above; it stays known, whatever its limits."""
    one: Group | None = group
    while one is not None:
        known = sum(key.startswith("met ") for key in one.values)
        one.values.setdefault(f"met {device}", known)
        one = one.parent


def _met(group: Group) -> list[str]:
    """The disks a group knows: the one met last is shown first."""
    found = [(order, key[4:]) for key, order in group.values.items() if key.startswith("met ")]
    return [device for _order, device in sorted(found, reverse=True)]


def _unlimited(rate: str) -> int:
    return U32_MAX if rate.endswith("iops") else U64_MAX


def _rate(group: Group, rate: str, device: str) -> int:
    return group.values.get(f"{rate} {device}", _unlimited(rate))


def _throttle(rate: str) -> File:
    """A file of v1; 0 takes a limit away."""

    def write(group: Group, text: str) -> None:
        device, rest = _split(group, text)
        number = re.match(r"\s*\d+", rest)
        if number is None:
            refuse(errno.EINVAL)
        value = int(number[0]) & U64_MAX or U64_MAX
        # The kernel keeps operations in 32 bits and drops the others.
        group.values[f"{rate} {device}"] = value & _unlimited(rate)

    def read(group: Group) -> str:
        pairs = [(device, _rate(group, rate, device)) for device in _met(group)]
        return "".join(f"{one} {value}\n" for one, value in pairs if value != _unlimited(rate))

    return File(read, write)


def _write_max(group: Group, text: str) -> None:
    device, rest = _split(group, text)
    changes = {}
    for token in rest.split():
        rate, _, value = token.partition("=")
        number = re.match(r"\d+", value)
        if number is None and value != "max":
            refuse(errno.EINVAL)
        limit = int(number[0]) & U64_MAX if number else U64_MAX
        if limit == 0:
            refuse(errno.ERANGE)
        if rate not in RATES or limit == 1:
            refuse(errno.EINVAL)
        changes[f"{rate} {device}"] = min(limit, _unlimited(rate))
    group.values.update(changes)


def _read_max(group: Group) -> str:
    lines = []
    for device in _met(group):
        limits = [(rate, _rate(group, rate, device)) for rate in RATES]
        if any(value != _unlimited(rate) for rate, value in limits):
            shown = (f"{one}={'max' if at == _unlimited(one) else at}" for one, at in limits)
            lines.append(f"{device} {' '.join(shown)}\n")
    return "".join(lines)


def _weight(text: str) -> int:
    number = re.match(r"\s*(?:default\s*)?(\d+)", text)
    if number is None or not 1 <= int(number[1]) <= 10_000:
        refuse(errno.EINVAL)
    return int(number[1])


def _write_weight(group: Group, text: str) -> None:
    if ":" not in text:
        group.values["weight"] = _weight(text)
        return
    device, rest = _split(group, text)
    if not group.machine.iocost and device not in group.machine.costs:
        refuse(errno.EOPNOTSUPP)
    if rest.startswith("default"):
        group.values.pop(f"weight {device}", None)
    else:
        group.values[f"weight {device}"] = _weight(rest)


def _read_weight(group: Group) -> str:
    own = [(one, group.values.get(f"weight {one}")) for one in _met(group)]
    lines = "".join(f"{device} {weight}\n" for device, weight in own if weight)
    return f"default {group.values.get('weight', 100)}\n{lines}"


def _write_latency(group: Group, text: str) -> None:
    """``target=<µs or max>``; none is no target. Another key is refused."""
    device, rest = _split(group, text)
    target = 0
    for token in rest.rstrip("\n").split(" "):
        key, _, value = token.partition("=")
        number = re.match(r"\s*\d+", value)
        if key != "target" or (number is None and value != "max"):
            refuse(errno.EINVAL)
        target = int(number[0]) if number else 0
    group.values[f"latency {device}"] = target


def _read_latency(group: Group) -> str:
    found = [(one, group.values.get(f"latency {one}", 0)) for one in _met(group)]
    return "".join(f"{device} target={target}\n" for device, target in found if target)


V1 = {name: _throttle(rate) for name, rate in _V1_FILES.items()}
V1_VENDOR = {"blkio.cost.weight": File(_read_weight, _write_weight)}
V2 = {
    "io.max": File(_read_max, _write_max),
    "io.weight": File(_read_weight, _write_weight),
    "io.latency": File(_read_latency, _write_latency),
}
