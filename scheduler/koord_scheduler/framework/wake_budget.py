"""Limits of what is spent on parked classes in one go. No IO."""

from __future__ import annotations

from typing import Protocol


class WakeBudget(Protocol):
    """Is asked before each look at a class, and before a class is tried again unseen."""

    def may_look(self) -> bool:
        """Return whether one more class may be looked at."""
        ...

    def may_retry(self) -> bool:
        """Return whether one more class may be tried again whatever changed."""
        ...


class UnlimitedBudget:
    """Everything at once."""

    def may_look(self) -> bool:
        """Always."""
        return True

    def may_retry(self) -> bool:
        """Always."""
        return True


class CountedBudget:
    """So many looks and retries, as were made before."""

    def __init__(self, looks: int, retries: int) -> None:
        self._looks = looks
        self._retries = retries

    def may_look(self) -> bool:
        """Return whether one more class may be looked at."""
        self._looks -= 1
        return self._looks >= 0

    def may_retry(self) -> bool:
        """Return whether one more class may be tried again whatever changed."""
        self._retries -= 1
        return self._retries >= 0


class CountingBudget:
    """Counts what another budget allows."""

    def __init__(self, budget: WakeBudget) -> None:
        self._budget = budget
        self.looks = 0
        self.retries = 0

    def may_look(self) -> bool:
        """Return whether one more class may be looked at."""
        allowed = self._budget.may_look()
        self.looks += allowed
        return allowed

    def may_retry(self) -> bool:
        """Return whether one more class may be tried again whatever changed."""
        allowed = self._budget.may_retry()
        self.retries += allowed
        return allowed


UNLIMITED = UnlimitedBudget()
