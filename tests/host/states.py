"""Valid states of any tree of cgroups, and a fake cgroupfs that is in one.

The fake refuses what a kernel refuses; ``started`` makes a refusal fail the test.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.outcomes import Outcome
from koord_model import cpuset

from tests.host.conftest import V1, V2, make_executor
from tests.support.fake_cgroupfs import FakeCgroupfs

CPUS = frozenset(range(6))
OWNER = Owner("test", Priority.HOOKS)
PERIODS = (50_000, 100_000, 250_000)
LAYOUTS = {1: V1, 2: V2}
FINE = {Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.OVERRIDDEN}
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


def started(state: State, version: int = 1) -> Strict:
    """Groups in a state; from now on no write to them may be refused."""
    files = Strict(version, cpus="0-5")
    for group in state:
        files.make_group(group)
    executor = make_executor(files, LAYOUTS[version])
    executor.set_desired(OWNER, "all", tuple(desired_of(state, files)))
    assert {one.outcome for one in executor.apply().results} <= FINE
    assert_is(state, files)
    files.strict = True
    files.writes.clear()
    return files


def desired_of(state: State, files: FakeCgroupfs) -> Iterator[DesiredValue]:
    for group, values in state.items():
        for knob, value in values.items():
            if files.exists(LAYOUTS[files.version].path(KNOBS[knob], group)):
                yield DesiredValue(Target(group, knob), value)


def assert_is(state: State, files: FakeCgroupfs) -> None:
    for desired in desired_of(state, files):
        place, name = desired.target
        if name == "cpu.shares" and state[place]["cpu.idle"] == 1:
            continue
        text = files.read(LAYOUTS[files.version].path(KNOBS[name], place))
        assert KNOBS[name].form(files.version).holds(desired.value, text), (desired, text)
