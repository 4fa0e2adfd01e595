"""How a knob's value is written in a kernel file, and read out of it.

Values are in cgroup v1's terms, whichever version the node has: hooks and
strategies reckon in shares and quotas. -1 is "no limit".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from mmap import PAGESIZE

from koord_model import cpuset

Value = int | str
"""What a knob is set to: a whole number, or text (CPU lists, limits of devices)."""

NO_LIMIT = -1

_LEAST_SHARES, _MOST_SHARES = 2, 262144
_MOST_WEIGHT = 10_000
_DEFAULT_PERIOD = 100_000  # µs
# v1 shows "no limit" as the largest multiple of the page size that fits.
_UNLIMITED_BYTES = 1 << 62
_DEVICE_LINE = re.compile(r"(\d+:\d+)\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Form:
    """One file format.

    ``decode`` raises ``ValueError`` for text that no kernel gives, ``encode`` for values
    that none takes. ``encode`` is given what the file holds now, because some files
    hold more than the knob (``cpu.max``). ``text``: values are text. ``unit``:
    the kernel rounds numbers down to a multiple of it. ``lines``: the kernel takes
    one line a write.
    """

    encode: Callable[[Value, str], str]
    decode: Callable[[str], Value]
    text: bool = False
    unit: int = 1
    lines: bool = False

    def same(self, one: Value, other: Value) -> bool:
        """Whether the kernel holds both to be the same value."""
        if one == other:
            return True
        if self.unit == 1 or isinstance(one, str) or isinstance(other, str):
            return False
        return min(one, other) >= 0 and one // self.unit == other // self.unit


def shares_to_weight(shares: int) -> int:
    """The v2 weight of v1 shares, by the kubelet's and runc's formula."""
    shares = min(max(shares, _LEAST_SHARES), _MOST_SHARES)
    return 1 + (shares - _LEAST_SHARES) * (_MOST_WEIGHT - 1) // (_MOST_SHARES - _LEAST_SHARES)


def weight_to_shares(weight: int) -> int:
    """The least shares that give this weight; an idle group's, 0, are the least there are."""
    if weight < 1:
        return _LEAST_SHARES
    span = _MOST_SHARES - _LEAST_SHARES
    return _LEAST_SHARES - (-(weight - 1) * span // (_MOST_WEIGHT - 1))


def devices(text: str) -> dict[str, int]:
    """Limits by device of a throttle file ("8:0 1048576", one a line); 0 is no limit.

    Raises:
        ValueError: a line is none; the message shows it.
    """
    found = {}
    for line in text.splitlines():
        if line.strip():
            match = _DEVICE_LINE.fullmatch(line.strip())
            if match is None:
                raise ValueError(f'{line!r} is no limit of a device; expected one like "8:0 4096"')
            found[match[1]] = int(match[2])
    return found


def render_devices(limits: dict[str, int]) -> str:
    """The lines of these limits."""
    ordered = sorted(limits.items(), key=lambda item: [int(part) for part in item[0].split(":")])
    return "\n".join(f"{device} {limit}" for device, limit in ordered)


def _number(value: Value, _: str) -> str:
    return str(value)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(text.split()[0]) if text.strip() else _refuse(text)


def _refuse(text: str) -> int:
    raise ValueError(f"{text.strip()!r} is no number")


def _bytes_v1(text: str) -> int:
    value = _whole(text)
    return NO_LIMIT if value >= _UNLIMITED_BYTES else value


def _limit(value: Value, _: str) -> str:
    return "max" if value == NO_LIMIT else str(value)


def _from_limit(text: str) -> int:
    return NO_LIMIT if text.strip() == "max" else _whole(text)


def _quota_v2(value: Value, _: str) -> str:
    # The kernel keeps the period where none is given.
    return _limit(value, "")


def _quota_from_v2(text: str) -> int:
    return _from_limit(text.split()[0]) if text.split() else _refuse(text)


def _period_v2(value: Value, current: str) -> str:
    quota = current.split()[0] if current.split() else "max"
    return f"{quota} {value}"


def _period_from_v2(text: str) -> int:
    parts = text.split()
    return int(parts[1]) if len(parts) > 1 else _DEFAULT_PERIOD


def _weight(value: Value, _: str) -> str:
    return str(shares_to_weight(int(value)))


@lru_cache(maxsize=4096)
def _cpus(text: str) -> str:
    return cpuset.render(cpuset.parse(text))


def _cpu_list(value: Value, _: str) -> str:
    # Nothing at all would not reach the kernel: a line end empties the set.
    return _cpus(str(value)) or "\n"


def _text(value: Value, _: str) -> str:
    return str(value)


def _device_lines(value: Value, current: str) -> str:
    return render_devices(devices(current) | devices(str(value)))


def _device_limits(text: str) -> str:
    return render_devices({device: limit for device, limit in devices(text).items() if limit})


NUMBER = Form(_number, _whole)
BYTES_V1 = Form(_number, _bytes_v1, unit=PAGESIZE)
BYTES_V2 = Form(_limit, _from_limit, unit=PAGESIZE)
QUOTA_V2 = Form(_quota_v2, _quota_from_v2)
PERIOD_V2 = Form(_period_v2, _period_from_v2)
WEIGHT_V2 = Form(_weight, lambda text: weight_to_shares(_whole(text)))
CPUS = Form(_cpu_list, _cpus, text=True)
DEVICES = Form(_device_lines, _device_limits, text=True, lines=True)
TEXT = Form(_text, str.strip, text=True)
WORDS = Form(_text, lambda text: " ".join(text.split()), text=True)
