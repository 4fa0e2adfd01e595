"""The index leaves out no reservation that a pod may use, and does leave out others."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from koord_model.label_selector import LabelSelector, Operator, Requirement
from koord_scheduler.plugins.reservation.objects import ObjectOwner
from koord_scheduler.plugins.reservation.owner_index import OwnerIndex
from koord_scheduler.plugins.reservation.owners import OwnedPod, OwnerMatcher
from koord_scheduler.plugins.reservation.reservation import Reservation

KEYS, VALUES = st.sampled_from("ab"), st.sampled_from("xyz")
REQUIREMENTS = st.builds(
    Requirement, KEYS, st.sampled_from(Operator), st.frozensets(VALUES, min_size=1)
)
SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=2).map(tuple))
MATCHERS = st.builds(
    OwnerMatcher, st.sampled_from([None, ObjectOwner("p")]), st.none(), st.none() | SELECTORS
)
RESERVATIONS = st.lists(st.lists(MATCHERS, max_size=3).map(tuple), max_size=6)


@given(RESERVATIONS, st.dictionaries(KEYS, VALUES))
def test_no_reservation_of_a_pod_is_left_out(
    given_matchers: list[tuple[OwnerMatcher, ...]], labels: dict[str, str]
) -> None:
    known = [
        Reservation(f"r{number}", str(number), matchers=matchers)
        for number, matchers in enumerate(given_matchers)
    ]
    found = OwnerIndex(known).candidates(labels)
    pod = OwnedPod("shop", labels, (), "p")
    matching = [one for one in known if any(each.matches(pod) for each in one.matchers)]
    assert [one for one in found if one in matching] == matching
    assert found == sorted(found, key=known.index)


def test_others_are_not_looked_at() -> None:
    web = OwnerMatcher(
        selector=LabelSelector((Requirement("a", Operator.IN, frozenset({"x", "y"})),))
    )
    of_web = Reservation("r", "1", matchers=(web, web))
    nobody, anybody = replace(of_web, matchers=()), replace(of_web, matchers=(OwnerMatcher(),))
    index = OwnerIndex([of_web, nobody, anybody])
    assert index.candidates({"a": "z"}) == [anybody]
    assert index.candidates({"a": "y"}) == [of_web, anybody]
