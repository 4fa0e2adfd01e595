"""The cpu controller: shares or weight, quota, period, burst, idle."""

from __future__ import annotations

import errno
import re

from tests.support.fake_cgroupfs.group import File, Group, constant
from tests.support.fake_cgroupfs.numerals import U64_MAX, refuse, signed, unsigned

UNLIMITED = -1
DEFAULT_PERIOD = 100_000
#: Microseconds: the kernel keeps a ratio in 64 bits, 20 of them a fraction.
MAX_RUNTIME = 2**44 - 1
MIN_SHARES, DEFAULT_SHARES, MAX_SHARES = 2, 1024, 2**18
IDLE_SHARES = 3
_CPU_MAX = re.compile(r"\s*(\S{1,20})(?:\s*([0-9]+))?")


def shares(group: Group) -> int:
    return group.values.get("shares", DEFAULT_SHARES)


def period(group: Group) -> int:
    return group.values.get("period", DEFAULT_PERIOD)


def quota(group: Group) -> int:
    return group.values.get("quota", UNLIMITED)


def burst(group: Group) -> int:
    return group.values.get("burst", 0)


def ratio(group: Group) -> int | None:
    """Quota by period as the kernel compares it, or None without a limit."""
    limit = group.values.get("quota", UNLIMITED)
    return None if limit == UNLIMITED else (limit << 20) // period(group)


def set_bandwidth(group: Group, new_period: int, new_quota: int, new_burst: int) -> None:
    """All three at once, as the kernel checks them."""
    if group.parent is None or not 1_000 <= new_period <= 1_000_000:
        refuse(errno.EINVAL)
    if new_quota != UNLIMITED and (
        not 1_000 <= new_quota <= MAX_RUNTIME
        or new_burst > new_quota
        or new_burst + new_quota > MAX_RUNTIME
    ):
        refuse(errno.EINVAL)
    if group.machine.version == 1:
        own = None if new_quota == UNLIMITED else (new_quota << 20) // new_period
        _check_ratios(group, own)
    group.values.update(quota=new_quota, period=new_period, burst=new_burst)


def limit_above(group: Group) -> int | None:
    """The ratio of the nearest limited ancestor."""
    above = group.parent
    while above is not None:
        found = ratio(above)
        if found is not None:
            return found
        above = above.parent
    return None


def _check_ratios(group: Group, own: int | None) -> None:
    """Of v1: no group may be given more than the nearest limited one above it."""
    limit = limit_above(group)
    if own is not None:
        if limit is not None and own > limit:
            refuse(errno.EINVAL)
        limit = own
    if limit is not None:
        _check_below(group, limit)


def _check_below(group: Group, limit: int) -> None:
    for child in group.children.values():
        own = ratio(child)
        if own is None:
            _check_below(child, limit)
        elif own > limit:
            refuse(errno.EINVAL)


def _write_shares(group: Group, text: str) -> None:
    value = unsigned(text)
    if group.parent is None or group.values.get("idle"):
        refuse(errno.EINVAL)
    group.values["shares"] = min(max(value, MIN_SHARES), MAX_SHARES)


def _read_weight(group: Group) -> str:
    weight = (shares(group) * 100 + 512) // 1024
    if group.machine.kernel >= (6, 12):
        weight = max(weight, 1)
    return f"{weight}\n"


def _write_weight(group: Group, text: str) -> None:
    weight = unsigned(text)
    if not 1 <= weight <= 10_000:
        refuse(errno.ERANGE)
    if group.values.get("idle"):
        refuse(errno.EINVAL)
    group.values["shares"] = (weight * 1024 + 50) // 100


def _write_idle(group: Group, text: str) -> None:
    value = signed(text)
    if group.parent is None or value not in (0, 1):
        refuse(errno.EINVAL)
    if value != group.values.get("idle", 0):
        # What the shares were before is lost.
        group.values.update(idle=value, shares=IDLE_SHARES if value else DEFAULT_SHARES)


def _write_quota(group: Group, text: str) -> None:
    value = signed(text)
    set_bandwidth(group, period(group), UNLIMITED if value < 0 else value, burst(group))


def _write_period(group: Group, text: str) -> None:
    set_bandwidth(group, unsigned(text), quota(group), burst(group))


def _write_burst(group: Group, text: str) -> None:
    value = unsigned(text)
    if value > U64_MAX // 1000:
        refuse(errno.EINVAL)
    set_bandwidth(group, period(group), quota(group), value)


def _read_max(group: Group) -> str:
    limit = quota(group)
    return f"{'max' if limit == UNLIMITED else limit} {period(group)}\n"


def _write_max(group: Group, text: str) -> None:
    """``<quota or max> [<period>]``; without a period the old one stays."""
    match = _CPU_MAX.match(text)
    if match is None:
        refuse(errno.EINVAL)
    number = re.match(r"[0-9]+", match[1])
    if number is None and match[1] != "max":
        refuse(errno.EINVAL)
    limit = int(number[0]) if number else UNLIMITED
    set_bandwidth(group, int(match[2]) if match[2] else period(group), limit, burst(group))


_COMMON = {"cpu.idle": File(lambda group: f"{group.values.get('idle', 0)}\n", _write_idle)}
V1 = _COMMON | {
    "cpu.shares": File(lambda group: f"{shares(group)}\n", _write_shares),
    "cpu.cfs_quota_us": File(lambda group: f"{quota(group)}\n", _write_quota),
    "cpu.cfs_period_us": File(lambda group: f"{period(group)}\n", _write_period),
    "cpu.cfs_burst_us": File(lambda group: f"{burst(group)}\n", _write_burst),
    "cpu.stat": constant(
        "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0\n"
    ),
}
V2 = _COMMON | {
    "cpu.stat": constant(
        "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\n"
        "throttled_usec 0\nnr_bursts 0\nburst_usec 0\n"
    ),
    "cpu.weight": File(_read_weight, _write_weight),
    "cpu.max": File(_read_max, _write_max),
    "cpu.max.burst": File(lambda group: f"{burst(group)}\n", _write_burst),
}
