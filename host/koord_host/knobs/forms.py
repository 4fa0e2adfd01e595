"""Formats of knobs' values in the kernel's files.

Values are in cgroup v1's terms, whichever version the node has: hooks and
strategies compute with shares and quotas. -1 is "no limit".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from mmap import PAGESIZE

from koord_model import cpuset

from koord_host.knobs.weights import WeightFormula

Value = int | str
"""Value of a knob: a whole number, or text (CPU lists, limits of devices)."""

NO_LIMIT = -1

NO_CPUS = "none"
"""An empty mask of CPUs: a file's empty text would mean nothing."""

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
    the kernel rounds numbers down to a multiple of it.

    Of files with a line for each device, of which the kernel takes one a write, ``lines``
    are those to write for a value, given what the file holds now; devices that the value
    does not name stay as they are. ``plain`` is a value without what means nothing (a
    limit of 0). ``without`` is the value that takes from a device what it has.
    """

    encode: Callable[[Value, str], str]
    decode: Callable[[str], Value]
    text: bool = False
    unit: int = 1
    lines: Callable[[str, str], list[str]] | None = None
    plain: Callable[[Value], Value] = lambda value: value
    without: str = "0"

    def holds(self, value: Value, text: str) -> bool:
        """True if a file's text already means ``value``.

        Compared as the file spells it: shares and weights do not map one to one.
        """
        try:
            spelt = self.encode(value, text)
            return spelt.strip() == text.strip() or self.same(self.decode(spelt), self.decode(text))
        except ValueError:
            return False

    def same(self, value: Value, other: Value) -> bool:
        """True if the kernel takes both for the same value."""
        if value == other:
            return True
        if self.lines is not None:
            return self.plain(value) == self.plain(other)
        if self.unit == 1 or isinstance(value, str) or isinstance(other, str):
            return False
        return min(value, other) >= 0 and value // self.unit == other // self.unit

    def made_of(self, text: str, known: Sequence[Value]) -> bool:
        """True if a file holds one of these values, or for each device that of one of them.

        A write that was broken off between two lines leaves something of two. What a value
        does not say of a device is the kernel's choice.

        Raises:
            ValueError: a value is none of this form.
        """
        if self.lines is None:
            return any(self.same(value, self.decode(text)) for value in known)
        said = [_by_device(str(value)) for value in known]
        there = _by_device(str(self.decode(text)))
        every = dict.fromkeys(device for values in (there, *said) for device in values)
        return all(
            any(self._says(device, values.get(device), text) for values in said) for device in every
        )

    def _says(self, device: str, rest: str | None, text: str) -> bool:
        now = self.decode(text)
        if rest is None:
            return device not in _by_device(str(now))
        return self.same(self.decode(self.encode(f"{device} {rest}", text)), now)

    def complete(self, wanted: Value, gone: Value, found: Value = "") -> Value:
        """A value that says of each device what becomes of it.

        ``wanted``; and of devices that only ``gone`` names what ``found`` says, or nothing.
        Values of files that have no lines are complete as they are.
        """
        if self.lines is None:
            return wanted
        named, before = _by_device(str(wanted)), _by_device(str(found))
        for device in _by_device(str(gone)):
            if device not in named:
                named[device] = before.get(device, self.without)
        return render_lines(named)


def _by_device(text: str) -> dict[str, str]:
    """The rest of each line, by the device it begins with."""
    parts = (line.partition(" ") for line in text.splitlines() if line.strip())
    return {device: rest for device, _, rest in parts}


def render_lines(by_device: Mapping[str, str]) -> str:
    """A line a device, in the order of their numbers; what is not a device comes first."""
    return "\n".join(
        f"{device} {by_device[device]}" for device in sorted(by_device, key=_device_order)
    )


def _device_order(device: str) -> list[int]:
    return [int(part) for part in device.split(":") if part.isdigit()]


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
                raise ValueError(
                    f'{line!r} is not a limit of a device; expected one like "8:0 4096"'
                )
            found[match[1]] = int(match[2])
    return found


def render_devices(limits: Mapping[str, int]) -> str:
    """The lines of these limits."""
    return render_lines({device: str(limit) for device, limit in limits.items()})


def limited(text: str) -> str:
    """Limits by device without those that are none."""
    return render_devices({device: limit for device, limit in devices(text).items() if limit})


def _number(value: Value, _: str) -> str:
    return str(value)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(text.split()[0]) if text.strip() else _refuse(text)


def _refuse(text: str) -> int:
    raise ValueError(f"{text.strip()!r} is not a number")


def _bytes_v1(text: str) -> int:
    value = _whole(text)
    return NO_LIMIT if value >= _UNLIMITED_BYTES else value


def _limit(value: Value, _: str) -> str:
    return "max" if value == NO_LIMIT else str(value)


def _from_limit(text: str) -> int:
    return NO_LIMIT if text.strip() == "max" else _whole(text)


def _limit_in_digits(value: Value, _: str) -> str:
    # Both of the kernel's parsers take it; only one of them takes "max", the other "-1".
    return str((1 << 63) - 1 if value == NO_LIMIT else value)


def _from_limit_or_digits(text: str) -> int:
    return NO_LIMIT if text.strip() == "max" else _bytes_v1(text)


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


def _weight(formula: WeightFormula) -> Form:
    return Form(
        lambda value, _: str(formula.weight(int(value))),
        lambda text: formula.shares(_whole(text)),
    )


@lru_cache(maxsize=4096)
def _cpus(text: str) -> str:
    return cpuset.render(cpuset.parse(text))


def _cpu_list(value: Value, _: str) -> str:
    # Nothing at all would not reach the kernel: a line end empties the set.
    return _cpus(str(value)) or "\n"


def _mask(value: Value, _: str) -> str:
    """Return a mask as the kernel reads it, 32 CPUs a word."""
    cpus = cpuset.parse("" if value == NO_CPUS else str(value))
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    words = [digits[max(end - 8, 0) : end] for end in range(len(digits), 0, -8)]
    return ",".join(reversed(words))


def _from_mask(text: str) -> str:
    try:
        mask = int(text.strip().replace(",", ""), 16)
    except ValueError:
        raise ValueError(f"{text.strip()!r} is not a mask of CPUs") from None
    return cpuset.render(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1) or NO_CPUS


def _text(value: Value, _: str) -> str:
    return str(value)


def _device_lines(value: Value, current: str) -> str:
    return render_devices(devices(current) | devices(str(value)))


def _changed_devices(value: str, current: str) -> list[str]:
    now = devices(current)
    wanted = devices(value)
    return [f"{device} {limit}" for device, limit in wanted.items() if now.get(device, 0) != limit]


NUMBER = Form(_number, _whole)
BYTES_V1 = Form(_number, _bytes_v1, unit=PAGESIZE)
BYTES_V2 = Form(_limit, _from_limit, unit=PAGESIZE)
BYTES_VENDOR = Form(_limit_in_digits, _from_limit_or_digits, unit=PAGESIZE)
"""Of a file of cgroup v2 that some vendors' kernels have on v1, too."""
QUOTA_V2 = Form(_quota_v2, _quota_from_v2)
PERIOD_V2 = Form(_period_v2, _period_from_v2)
WEIGHT_FORMS = {formula: _weight(formula) for formula in WeightFormula}
"""Shares as a weight: ``Layout`` knows whose formula is a group's."""
WEIGHT_V2 = WEIGHT_FORMS[WeightFormula.LINEAR]
CPUS = Form(_cpu_list, _cpus, text=True)
CPU_MASK = Form(_mask, _from_mask, text=True)
"""Values are CPU lists, or ``NO_CPUS``."""
DEVICES = Form(
    _device_lines,
    limited,
    text=True,
    lines=_changed_devices,
    plain=lambda value: limited(str(value)),
)
TEXT = Form(_text, str.strip, text=True)
WORDS = Form(_text, lambda text: " ".join(text.split()), text=True)
