"""States no kernel would be in, whatever was written in whatever order."""

from __future__ import annotations

from tests.support.fake_cgroupfs import cpu, cpuset
from tests.support.fake_cgroupfs.group import Group
from tests.support.fake_cgroupfs.numerals import MAX_PAGES, list_of


def check(group: Group) -> None:
    """Fail, naming the group, when its state is impossible."""
    _check_burst(group)
    _check_memory(group)
    _check_cpuset(group)
    if group.machine.version == 1:
        _check_ratio(group)


def _check_burst(group: Group) -> None:
    limit, extra = cpu.quota(group), cpu.burst(group)
    assert limit == cpu.UNLIMITED or extra <= limit, f"{group.path}: burst {extra} > quota {limit}"


def _check_ratio(group: Group) -> None:
    own, above = cpu.ratio(group), cpu.limit_above(group)
    assert own is None or above is None or own <= above, f"{group.path}: more than is above it"


def _check_memory(group: Group) -> None:
    limit, swap = group.values.get("limit", MAX_PAGES), group.values.get("memsw", MAX_PAGES)
    assert limit <= swap, f"{group.path}: limit {limit} > memsw {swap} (pages)"


def _check_cpuset(group: Group) -> None:
    if "cpuset.cpus" not in group.files or group.parent is None or group.machine.version == 2:
        return
    for kind in ("cpus", "mems"):
        own, above = cpuset.allowed(group, kind), cpuset.allowed(group.parent, kind)
        lost = list_of(own & ~above)
        assert not lost, f"{group.path}: cpuset.{kind} {lost} not in the parent's"
        assert own or not group.pids, f"{group.path}: processes but no cpuset.{kind}"
