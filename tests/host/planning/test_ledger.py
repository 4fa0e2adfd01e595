from koord_host.planning.desired_values import Target
from koord_host.planning.ledger import Ledger

from tests.host.conftest import HOOKS, STRATEGY, desired

A, B = desired("a", "cpu.shares", 2), desired("b", "cpu.shares", 2)


def test_desired_values_by_target() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, B))
    ledger.put(STRATEGY, "node", (A,))
    assert ledger.of(A.target) == [(HOOKS, A), (STRATEGY, A)]
    assert ledger.of(Target("c", "cpu.shares")) == []
    assert list(ledger.take_changed()) == [A.target, B.target]
    assert not ledger.changed


def test_only_what_differs_changes() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", both := (A, B))
    ledger.take_changed()
    ledger.put(HOOKS, "pod 1", both)
    ledger.put(HOOKS, "pod 1", (A, B))
    assert not ledger.changed
    other = desired("b", "cpu.shares", 3)
    ledger.put(HOOKS, "pod 1", (A, other))
    assert list(ledger.take_changed()) == [B.target]
    assert ledger.of(B.target) == [(HOOKS, other)]


def test_what_strategies_change_can_be_taken_by_itself() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, B))
    assert not ledger.urgent
    ledger.put(STRATEGY, "s", (desired("b", "cpu.shares", 9),))
    assert list(ledger.take_urgent()) == [B.target]
    assert (ledger.urgent, list(ledger.take_changed())) == (False, [A.target])
    ledger.put(STRATEGY, "s", ())
    assert list(ledger.take_changed()) == [B.target]
    assert not ledger.urgent


def test_withdrawn() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A,))
    ledger.put(HOOKS, "pod 2", (A,))
    ledger.put(HOOKS, "pod 1", ())
    ledger.put(HOOKS, "pod 1", ())
    assert ledger.of(A.target) == [(HOOKS, A)]
    ledger.put(HOOKS, "pod 2", ())
    assert ledger.of(A.target) == []
    assert A.target in ledger.take_changed()


def test_a_value_twice_in_one_scope_counts_once() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, A))
    assert ledger.of(A.target) == [(HOOKS, A)]
    ledger.put(HOOKS, "pod 1", ())
    assert ledger.of(A.target) == []
