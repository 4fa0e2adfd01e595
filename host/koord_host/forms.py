"""How a knob's value is written in a kernel file, and read out of it.

Values are in cgroup v1's terms, whichever version the node has: hooks and
strategies reckon in shares and quotas. -1 is "no limit".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from koord_model import cpuset

Value = int | str
"""What a knob is set to: a whole number, or text (CPU lists, schemata)."""

NO_LIMIT = -1

_LEAST_SHARES, _MOST_SHARES = 2, 262144
_MOST_WEIGHT = 10_000
_DEFAULT_PERIOD = 100_000  # µs
# v1 shows "no limit" as the largest multiple of the page size that fits.
_UNLIMITED_BYTES = 1 << 62
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Form:
    """One file format.

    ``decode`` raises ``ValueError`` for text that no kernel gives. ``encode`` is given
    what the file holds now, because some files hold two knobs (``cpu.max``).
    """

    encode: Callable[[Value, str], str]
    decode: Callable[[str], Value]


def shares_to_weight(shares: int) -> int:
    """The v2 weight of v1 shares, by the kubelet's and runc's formula."""
    shares = min(max(shares, _LEAST_SHARES), _MOST_SHARES)
    return 1 + (shares - _LEAST_SHARES) * (_MOST_WEIGHT - 1) // (_MOST_SHARES - _LEAST_SHARES)


def weight_to_shares(weight: int) -> int:
    """The least shares that give this weight."""
    span = _MOST_SHARES - _LEAST_SHARES
    return _LEAST_SHARES - (-(weight - 1) * span // (_MOST_WEIGHT - 1))


def _number(value: Value, _: str) -> str:
    return str(value)


def _whole(text: str) -> int:
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


def _cpus(text: str) -> str:
    return cpuset.render(cpuset.parse(text))


def _text(value: Value, _: str) -> str:
    return str(value)


def _as_is(text: str) -> str:
    return text.strip()


NUMBER = Form(_number, _whole)
BYTES_V1 = Form(_number, _bytes_v1)
LIMIT_V2 = Form(_limit, _from_limit)
QUOTA_V2 = Form(_quota_v2, _quota_from_v2)
PERIOD_V2 = Form(_period_v2, _period_from_v2)
WEIGHT_V2 = Form(_weight, lambda text: weight_to_shares(_whole(text)))
CPUS = Form(_text, _cpus)
TEXT = Form(_text, _as_is)


def same(one: Value, other: Value) -> bool:
    """Whether the kernel holds ``one`` and ``other`` to be the same limit.

    It rounds byte counts to whole pages.
    """
    if one == other:
        return True
    if isinstance(one, str) or isinstance(other, str):
        return False
    return min(one, other) >= _PAGE and one // _PAGE == other // _PAGE and abs(one - other) < _PAGE
