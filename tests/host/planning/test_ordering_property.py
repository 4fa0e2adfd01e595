"""For any tree and any two valid states, no write is refused, and the end is as wanted.

The fake cgroupfs refuses what a kernel refuses; every write the executor does must
be accepted, and none may widen a limit beyond what is and what shall be.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.ordering import parts
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_model import cpuset

from tests.support.fake_cgroupfs import FakeCgroupfs

CPUS = frozenset(range(6))
OWNER = Owner("test", Priority.HOOKS)
PERIODS = (50_000, 100_000, 250_000)
State = dict[str, dict[str, int | str]]


@st.composite
def trees(draw: st.DrawFn) -> list[str]:
    """Groups, parents before children, up to three below the first."""
    groups = ["top"]
    for number in range(draw(st.integers(0, 6))):
        parent = draw(st.sampled_from(groups))
        if parent.count("/") < 3:
            groups.append(f"{parent}/g{number}")
    return groups


def _above(group: str) -> str:
    return group.rpartition("/")[0]


def _bandwidth(draw: st.DrawFn, above: tuple[int, int] | None) -> tuple[int, int, int]:
    """A quota, a period and a burst that fit below the nearest limit."""
    period = draw(st.sampled_from(PERIODS))
    if draw(st.booleans()):
        return -1, period, draw(st.integers(0, 50_000))
    most = 4 * period if above is None else above[0] * period // above[1]
    if most < 1000:
        return -1, period, 0
    quota = draw(st.integers(1000, most))
    return quota, period, draw(st.integers(0, quota))


@st.composite
def states(draw: st.DrawFn, groups: list[str]) -> State:
    """A valid state of all groups."""
    found: State = {}
    limits: dict[str, tuple[int, int] | None] = {"": None}
    for group in groups:
        above = found.get(_above(group))
        quota, period, burst = _bandwidth(draw, limits[_above(group)])
        limits[group] = limits[_above(group)] if quota == -1 else (quota, period)
        cpus = cpuset.parse(str(above["cpuset.cpus"])) if above else CPUS
        own = draw(st.sets(st.sampled_from(sorted(cpus)), min_size=1))
        low = int(above["memory.low"]) if above else 1 << 30
        limit = draw(st.sampled_from([-1, 1 << 20, 1 << 24, 1 << 28]))
        swaps = [
            -1,
            *(size for size in (1 << 20, 1 << 24, 1 << 28) if limit != -1 and size >= limit),
        ]
        found[group] = {
            "cpu.cfs_quota_us": quota,
            "cpu.cfs_period_us": period,
            "cpu.cfs_burst_us": burst,
            "cpu.idle": draw(st.integers(0, 1)),
            "cpu.shares": draw(st.sampled_from([2, 3, 512, 1024, 262_144])),
            "cpuset.cpus": cpuset.render(own),
            "memory.low": draw(st.integers(0, low >> 12)) << 12,
            "memory.limit_in_bytes": limit,
            "memory.memsw.limit_in_bytes": draw(st.sampled_from(swaps)),
        }
    return found


@st.composite
def changes(draw: st.DrawFn) -> tuple[State, State]:
    groups = draw(trees())
    return draw(states(groups)), draw(states(groups))


class Strict(FakeCgroupfs):
    """Fails the test when a write is refused, or when the tree is in an impossible state."""

    strict = False

    def write(self, path: str, text: str) -> None:
        try:
            super().write(path, text)
        except OSError as error:
            if self.strict:
                raise AssertionError(f"{path}: {text!r} was refused: {error}") from error
            raise
        self.check()


def _executor(files: FakeCgroupfs) -> Executor:
    layout = Layout(files.version, Driver.CGROUPFS)
    ticks = itertools.count()
    return Executor(
        files,
        layout,
        Journal("", print),
        BaselineStore("", print),
        clock=lambda: 0.0,
        monotonic=lambda: float(next(ticks)),
    )


def _wishes(state: State, files: FakeCgroupfs) -> Iterator[DesiredValue]:
    for group, values in state.items():
        for knob, value in values.items():
            layout = Layout(files.version, Driver.CGROUPFS)
            if files.exists(layout.path(KNOBS[knob], group)):
                yield DesiredValue(Target(group, knob), value)


def _assert_is(state: State, files: FakeCgroupfs) -> None:
    layout = Layout(files.version, Driver.CGROUPFS)
    for desired in _wishes(state, files):
        place, name = desired.target
        if name == "cpu.shares" and state[place]["cpu.idle"] == 1:
            continue
        text = files.read(layout.path(KNOBS[name], place))
        assert KNOBS[name].form(files.version).holds(desired.value, text), (desired, text)


def _run(version: int, before: State, after: State, *, vendor: bool = False) -> Strict:
    files = Strict(version, vendor=vendor, cpus="0-5")
    for group in before:
        files.make_group(group)
    files.strict = True
    executor = _executor(files)
    executor.set_desired(OWNER, "all", tuple(_wishes(before, files)))
    first = executor.apply()
    assert {one.outcome for one in first.results} <= set(_FINE), first
    _assert_is(before, files)
    files.writes.clear()
    executor.set_desired(OWNER, "all", tuple(_wishes(after, files)))
    second = executor.apply()
    assert {one.outcome for one in second.results} <= set(_FINE), second
    _assert_is(after, files)
    return files


_FINE = (Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.OVERRIDDEN)


@given(changes())
def test_v1(both: tuple[State, State]) -> None:
    files = _run(1, *both)
    _assert_within_the_join(files, *both)


@given(changes())
def test_v2(both: tuple[State, State]) -> None:
    files = _run(2, *both)
    _assert_within_the_join(files, *both)


@given(changes(), st.data())
def test_only_some_groups_are_wished(both: tuple[State, State], data: st.DataObject) -> None:
    """What nobody wishes stays; a refusal is told, and nothing impossible comes of it."""
    before, after = both
    files = Strict(1, cpus="0-5")
    for group in before:
        files.make_group(group)
    executor = _executor(files)
    executor.set_desired(OWNER, "all", tuple(_wishes(before, files)))
    executor.apply()
    some = data.draw(st.sets(st.sampled_from(sorted(after)), min_size=1))
    executor.forget(OWNER, "all")
    desired_values = tuple(one for one in _wishes(after, files) if one.target.place in some)
    executor.set_desired(OWNER, "some", desired_values)
    found = executor.apply()
    files.check()
    for result in found.results:
        if result.outcome is Outcome.REFUSED:
            assert result.errno
    for group in set(before) - some:
        _assert_is({group: before[group]}, files)


def _assert_within_the_join(files: FakeCgroupfs, before: State, after: State) -> None:
    """No moment gives a group CPUs that neither state gives it."""
    for path, text in files.writes:
        if path.endswith("/cpuset.cpus"):
            group = path.removeprefix(files.directory("", "cpuset") + "/").rpartition("/")[0]
            allowed = cpuset.parse(str(before[group]["cpuset.cpus"]))
            assert cpuset.parse(text) <= allowed | cpuset.parse(str(after[group]["cpuset.cpus"]))


PLACES = st.lists(st.sampled_from("abc"), max_size=4).map("/".join)
TARGETS = st.lists(st.builds(Target, PLACES, st.sampled_from(["x", "y"])), unique=True, max_size=30)


@given(TARGETS, st.integers(1, 6))
def test_parts_have_every_target_once_and_families_whole(targets: list[Target], most: int) -> None:
    found = parts(targets, most)
    assert sorted(target for part in found for target in part) == sorted(targets)
    for one, other in itertools.combinations(found, 2):
        for above, below in itertools.product(one, other):
            assert not f"{below.place}/".startswith(f"{above.place}/" if above.place else "")
            assert not f"{above.place}/".startswith(f"{below.place}/" if below.place else "")
    tops = [{_top_of(target.place, targets) for target in part} for part in found]
    assert all(len(part) <= most or len(top) == 1 for part, top in zip(found, tops, strict=True))


def _top_of(place: str, targets: list[Target]) -> str:
    places = {target.place for target in targets}
    words = place.split("/") if place else []
    above = ["/".join(words[:count]) for count in range(len(words) + 1)]
    return next(one for one in above if one in places)
