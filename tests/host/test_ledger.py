from koord_host.ledger import Ledger
from koord_host.wishes import Target

from tests.host.conftest import HOOKS, STRATEGY, wish

A, B = wish("a", "cpu.shares", 2), wish("b", "cpu.shares", 2)


def test_wishes_by_target() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, B))
    ledger.put(STRATEGY, "node", (A,))
    assert ledger.of(A.target) == [(HOOKS, A), (STRATEGY, A)]
    assert ledger.of(Target("c", "cpu.shares")) == []
    assert list(ledger.take_changed()) == [A.target, B.target]
    assert not ledger.changed


def test_the_same_again_changes_nothing() -> None:
    ledger = Ledger()
    both = (A, B)
    ledger.put(HOOKS, "pod 1", both)
    ledger.take_changed()
    ledger.put(HOOKS, "pod 1", both)
    ledger.put(HOOKS, "pod 1", (A, B))
    assert not ledger.changed


def test_only_what_differs_changes() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, B))
    ledger.take_changed()
    other = wish("b", "cpu.shares", 3)
    ledger.put(HOOKS, "pod 1", (A, other))
    assert list(ledger.take_changed()) == [B.target]
    assert ledger.of(B.target) == [(HOOKS, other)]


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


def test_a_wish_twice_in_one_scope_counts_once() -> None:
    ledger = Ledger()
    ledger.put(HOOKS, "pod 1", (A, A))
    assert ledger.of(A.target) == [(HOOKS, A)]
    ledger.put(HOOKS, "pod 1", ())
    assert ledger.of(A.target) == []
