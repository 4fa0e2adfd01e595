from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from koord_manager.node_metric.core.store import (
    TERM_BITS,
    EventType,
    NodeIdentity,
    NodeMetricStore,
    TooNewError,
    TooOldError,
)
from koord_manager.slo_config.core.colocation import ColocationStrategy

NAMES = st.sampled_from(["n1", "n2", "n3", "n4"])


REPORTS = {"metric_report_seconds": 1}
OFTEN = ColocationStrategy(degrade_minutes=1, **REPORTS)


def store(term: int = 7, **more: Any) -> NodeMetricStore:
    made = NodeMetricStore(stale_seconds=100, **more)
    made.begin(term)
    return made


def put(kept: NodeMetricStore, name: str, now: float = 0.0, status: bytes = b"{}") -> None:
    kept.put(name, status, now, 1_000_000 + now)


def reported(kept: NodeMetricStore, version: int) -> list[tuple[str, str]]:
    return [(one.type.value, one.kept.name) for one in kept.since(version)]


def test_what_came_what_changed_and_what_went_is_reported_in_order() -> None:
    kept = store()
    put(kept, "n1")
    put(kept, "n2")
    version = kept.version
    put(kept, "n1")
    kept.forget("n2")
    put(kept, "n3")
    put(kept, "n3")
    assert reported(kept, version) == [("MODIFIED", "n1"), ("DELETED", "n2"), ("ADDED", "n3")]
    assert kept.since(kept.version) == []
    versions = [one.version for one in kept.since(version)]
    assert versions == sorted(versions)


def test_versions_of_other_terms_and_of_the_future_are_refused() -> None:
    kept = store(term=7)
    put(kept, "n1")
    old = kept.version
    with pytest.raises(TooNewError, match="Too large resource version"):
        kept.since(old + 1)
    kept.begin(8)
    with pytest.raises(TooOldError, match="too old resource version"):
        kept.since(old)
    assert kept.since(8 << TERM_BITS) == []


def test_only_so_many_that_went_are_remembered() -> None:
    kept = store()
    put(kept, "n1")
    version = kept.version
    for number in range(600):
        put(kept, f"m{number}")
        kept.forget(f"m{number}")
    with pytest.raises(TooOldError):
        kept.since(version)
    put(kept, "m")
    newest = kept.version
    kept.forget("m")
    assert reported(kept, newest) == [("DELETED", "m")]
    with pytest.raises(TooOldError):
        kept.page(version=version)


def test_a_silent_node_is_stale_and_goes_in_the_end() -> None:
    kept = store(strategy=lambda _name: ColocationStrategy(degrade_minutes=8, **REPORTS))
    put(kept, "n1", now=0)
    put(kept, "n2", now=90)
    version = kept.version
    assert kept.age(100, 1_000_100) == ((), ())
    assert kept.age(101, 1_000_101) == (("n1",), ())
    assert kept.age(102, 1_000_102) == ((), ())
    assert kept.stale == {"n1"}
    found = kept.get("n1")
    assert found is not None
    assert found.stale_since == "1970-01-12T13:46:40Z"
    assert reported(kept, version) == [("MODIFIED", "n1")]
    put(kept, "n1", now=103)
    assert kept.stale == set()
    assert kept.get("n1").stale_since == ""  # type: ignore[union-attr]
    assert kept.age(204, 1_000_204) == (("n2", "n1"), ())
    assert kept.age(571, 1_000_571) == ((), ("n2",))
    assert kept.get("n2") is None


def test_a_node_that_reports_seldom_is_not_stale_between_two_reports() -> None:
    strategies = {"n1": ColocationStrategy(metric_report_seconds=300, degrade_minutes=5)}
    kept = store(strategy=lambda name: strategies.get(name, ColocationStrategy()))
    put(kept, "n1", now=0)
    put(kept, "n2", now=0)
    assert kept.age(615, 1_000_615) == (("n2",), ())
    assert kept.age(616, 1_000_616) == (("n1",), ())
    assert (kept.stale_after("n1"), kept.stale_after("n2")) == (615, 135)
    assert kept.age(901, 1_000_901) == ((), ("n2",))
    assert kept.age(916, 1_000_916) == ((), ("n1",))


def test_who_an_object_is_stays_the_same_with_every_leader() -> None:
    about = {"n1": NodeIdentity("u1", "2026-01-01T00:00:00Z")}
    one, other = store(about=about.get), store(term=9, about=about.get)
    put(one, "n1", now=1)
    put(other, "n1", now=2)
    first, second = one.get("n1"), other.get("n1")
    assert first is not None
    assert second is not None
    assert (first.uid, first.created) == (second.uid, second.created)
    assert first.created == "2026-01-01T00:00:00Z"
    about["n1"] = NodeIdentity("u2", "2026-02-01T00:00:00Z")
    one.forget("n1")
    put(one, "n1")
    assert one.get("n1").uid != first.uid  # type: ignore[union-attr]


def test_nothing_is_kept_while_closed() -> None:
    kept = NodeMetricStore()
    put(kept, "n1")
    assert len(kept) == 0
    kept.begin(3)
    put(kept, "n1")
    kept.end()
    assert (len(kept), kept.term) == (0, 0)


@given(st.integers(1, 1 << 40), st.lists(st.integers(0, (1 << TERM_BITS) - 1), min_size=1))
def test_a_million_changes_between_two_renewals_stay_below_the_next_term(
    term: int, changes: list[int]
) -> None:
    kept = store(term=term)
    kept.version += sum(changes)
    last = kept.version
    renewals = len(changes) - 1
    kept.begin(term + renewals + 1)
    assert kept.version > last


class Following(RuleBasedStateMachine):
    """Whoever lists, in pages of any size, and follows from there ends where the store is."""

    lists = Bundle("lists")

    @initialize(term=st.integers(1, 1 << 40))
    def begin(self, term: int) -> None:
        self.kept = NodeMetricStore(strategy=lambda _name: OFTEN, stale_seconds=5)
        self.kept.begin(term)
        self.term = term
        self.now = 0.0
        self.newest = self.kept.version
        self.number = 0

    @rule(name=NAMES)
    def report(self, name: str) -> None:
        self.number += 1
        self.kept.put(name, b"%d" % self.number, self.now, self.now)

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        self.kept.forget(name)

    @rule(seconds=st.integers(1, 12))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        self.kept.age(self.now, self.now)

    @rule(renewals=st.integers(1, 3))
    def fail_over(self, renewals: int) -> None:
        before = self.kept.version
        self.term += renewals
        self.kept.begin(self.term)
        assert self.kept.version > before

    @rule(target=lists)
    def begin_list(self) -> dict[str, Any]:
        return {"objects": {}, "after": "", "version": 0, "whole": False}

    @rule(found=lists, limit=st.integers(1, 3))
    def next_page(self, found: dict[str, Any], limit: int) -> None:
        if found["whole"]:
            return
        try:
            page = self.kept.page(limit, found["after"], found["version"])
        except TooOldError:
            found.update(objects={}, after="", version=0)
            return
        found["objects"] |= {one.name: one for one in page.objects}
        found.update(version=page.version, after=page.after, whole=not page.after)

    @rule(found=lists)
    def follow(self, found: dict[str, Any]) -> None:
        if not found["whole"]:
            return
        try:
            events = self.kept.since(found["version"])
        except TooOldError:
            found.update(objects={}, after="", version=0, whole=False)
            return
        assert [one.version for one in events] == sorted({one.version for one in events})
        objects = found["objects"]
        for event in events:
            if event.type is EventType.DELETED:
                objects.pop(event.kept.name, None)
            else:
                if event.type is EventType.MODIFIED:
                    assert event.kept.name in objects
                objects[event.kept.name] = event.kept
        found["version"] = self.kept.version
        assert objects == {one.name: one for one in self.kept.page().objects}

    @rule(found=consumes(lists))
    def give_up(self, found: dict[str, Any]) -> None:
        pass

    @invariant()
    def versions_grow(self) -> None:
        if not hasattr(self, "kept"):
            return
        assert self.kept.version >= self.newest
        self.newest = self.kept.version
        versions = [one.version for one in self.kept.page().objects]
        assert len(set(versions)) == len(versions)
        assert all(version <= self.kept.version for version in versions)


TestFollowing = Following.TestCase
TestFollowing.settings = settings(stateful_step_count=40)
