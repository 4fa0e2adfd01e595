"""For any tree and any two valid states, no write is refused, and the end is as wanted.

The fake cgroupfs refuses what a kernel refuses; every write the executor does must
be accepted, and none may widen a limit beyond what is and what shall be.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import parts
from koord_host.planning.outcomes import Outcome
from koord_model import cpuset

from tests.host.conftest import make_executor
from tests.host.states import FINE, LAYOUTS, OWNER, State, assert_is, changes, desired_of, started
from tests.support.fake_cgroupfs import FakeCgroupfs


@pytest.mark.parametrize("version", [1, 2])
@given(changes())
def test_no_write_is_refused(version: int, both: tuple[State, State]) -> None:
    before, after = both
    files = started(before, version)
    executor = make_executor(files, LAYOUTS[version])
    executor.set_desired(OWNER, "all", tuple(desired_of(after, files)))
    found = executor.apply()
    assert {one.outcome for one in found.results} <= FINE, found
    assert_is(after, files)
    _assert_within_the_join(files, before, after)


@given(changes(), st.data())
def test_only_some_groups_are_wanted(both: tuple[State, State], data: st.DataObject) -> None:
    """What nobody wants stays; a refusal is reported, and nothing impossible comes of it."""
    before, after = both
    files = started(before)
    files.strict = False
    some = data.draw(st.sets(st.sampled_from(sorted(after)), min_size=1))
    executor = make_executor(files)
    desired_values = (one for one in desired_of(after, files) if one.target.place in some)
    executor.set_desired(OWNER, "some", tuple(desired_values))
    found = executor.apply()
    files.check()
    assert all(one.errno for one in found.results if one.outcome is Outcome.REFUSED)
    for group in set(before) - some:
        assert_is({group: before[group]}, files)


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
