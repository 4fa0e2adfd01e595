import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.patch import Conflict, Patch, checked, merge
from koord_model.resources import LinuxResources

# Few names and values, so that owners agree and disagree often.
_WORDS = st.sampled_from(["a", "b"])
_MAPS = st.dictionaries(_WORDS, _WORDS, max_size=2)
_NUMBERS = st.none() | st.integers(1, 2)
_RESOURCES = st.builds(
    LinuxResources,
    cpu_quota=_NUMBERS,
    cpu_shares=_NUMBERS,
    cpuset_cpus=st.none() | st.sampled_from(["", "0-3"]),
    hugepage_limits=st.dictionaries(_WORDS, st.integers(0, 1)),
    unified=_MAPS,
)
_PATCHES = st.builds(
    Patch,
    labels=_MAPS,
    annotations=_MAPS,
    env=_MAPS,
    cgroup_parent=st.none() | _WORDS,
    resources=_RESOURCES,
    why=st.sampled_from(["", "because"]),
)


def limits(**resources: Any) -> Patch:
    return Patch(resources=LinuxResources(**resources))


_BY_OWNER = st.dictionaries(st.sampled_from("pqrst"), _PATCHES).map(
    lambda patches: [*patches.items()]
)


@given(_BY_OWNER, st.randoms())
def test_order_never_matters(patches: list[tuple[str, Patch]], dice: random.Random) -> None:
    shuffled = list(patches)
    dice.shuffle(shuffled)
    assert merge(shuffled, Patch) == merge(patches, Patch)


@given(_PATCHES, _PATCHES)
def test_conflicts_are_symmetrical(mine: Patch, yours: Patch) -> None:
    _, one = merge([("me", mine), ("you", yours)], Patch)
    _, other = merge([("me", yours), ("you", mine)], Patch)
    mirrored = [Conflict(c.field, _swapped(c.desired)) for c in other]
    assert list(one) == mirrored


def _swapped(patches: tuple[tuple[str, object], ...]) -> tuple[tuple[str, object], ...]:
    (first, mine), (second, yours) = patches
    return ((first, yours), (second, mine))


@given(_PATCHES)
def test_one_patch_is_granted_whole_and_a_second_of_the_same_is_no_conflict(patch: Patch) -> None:
    assert merge([], Patch) == (Patch(), ())
    for owners in (["me"], ["me", "you"]):
        merged, conflicts = merge([(owner, patch) for owner in owners], Patch)
        assert not conflicts
        assert replace(merged, why="") == replace(patch, why="")


def test_a_disputed_field_is_left_alone_and_the_others_are_granted() -> None:
    merged, conflicts = merge(
        [
            ("b", Patch(env={"A": "2"}, resources=LinuxResources(cpu_quota=-1, cpu_shares=2))),
            ("a", Patch(env={"A": "1"}, resources=LinuxResources(cpu_quota=5))),
        ],
        Patch,
    )
    assert merged.env == {}
    assert merged.resources == LinuxResources(cpu_shares=2)
    assert [str(conflict) for conflict in conflicts] == [
        "env[A]: a wants '1', b wants '2'",
        "resources[cpu_quota]: a wants 5, b wants -1",
    ]


def test_reasons_name_their_owner() -> None:
    assert (
        merge([("b", Patch(why="two")), ("a", Patch(why="one"))], Patch)[0].why == "a: one; b: two"
    )


@given(_PATCHES)
def test_a_proper_patch_passes_the_check(patch: Patch) -> None:
    assert checked(patch, Patch) is patch


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cpu": 1}, "returned dict; expected a Patch or None"),
        (Patch(env={"A": 1}), r"env\[A\] is 1; expected str"),  # type: ignore[dict-item]
        (Patch(labels={1: "a"}), r"labels\[1\] is 'a'; expected str"),  # type: ignore[dict-item]
        (Patch(cgroup_parent=b"x"), "cgroup_parent is b'x'; expected str"),  # type: ignore[arg-type]
        (limits(cpu_shares=1.5), r"resources\[cpu_shares\] is 1.5; expected int"),
        (limits(cpu_shares=True), r"resources\[cpu_shares\] is True; expected int"),
        (limits(cpuset_cpus=3), r"resources\[cpuset_cpus\] is 3; expected str"),
        (limits(cpu_quota=1 << 63), "expected a 64-bit number"),
        (limits(hugepage_limits={"2MB": -1}), "expected a 64-bit number"),
        (limits(unified={"memory.high": "\ud800"}), "surrogates not allowed"),
    ],
)
def test_what_no_message_can_carry_is_refused(given: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        checked(given, Patch)
