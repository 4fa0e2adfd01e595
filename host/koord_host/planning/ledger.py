"""Desired values of all owners, by scope and by target."""

from __future__ import annotations

from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target

_Scope = tuple[Owner, str]


class Ledger:
    """Desired values, and the targets whose desired values changed since the last call."""

    def __init__(self) -> None:
        self._scopes: dict[_Scope, tuple[DesiredValue, ...]] = {}
        # Tuples, never changed: other threads read them (``of``).
        self._targets: dict[Target, tuple[tuple[_Scope, DesiredValue], ...]] = {}
        # A dictionary keeps the order in which targets were added.
        self._changed: dict[Target, None] = {}
        # Those among them that strategies changed: they do so as load moves.
        self._urgent: dict[Target, None] = {}

    def put(self, owner: Owner, scope: str, desired_values: tuple[DesiredValue, ...]) -> None:
        """Replace what an owner wants in a scope; the same tuple again costs nothing."""
        key = (owner, scope)
        before = self._scopes.get(key, ())
        if before is desired_values:
            return
        self._scopes[key] = desired_values
        if not desired_values:
            del self._scopes[key]
        if before == desired_values:
            return
        # Dictionaries for their order; a value that is desired twice counts once.
        old, new = dict.fromkeys(before), dict.fromkeys(desired_values)
        added: dict[Target, tuple[tuple[_Scope, DesiredValue], ...]] = {}
        for desired in old:
            if desired not in new:
                added[desired.target] = ()
        for desired in new:
            if desired not in old:
                added[desired.target] = (*added.get(desired.target, ()), (key, desired))
        for target, more in added.items():
            # In one assignment: no reader sees a target between two values.
            known = self._targets.get(target, ())
            left = tuple(entry for entry in known if entry[0] != key or entry[1] in new) + more
            if left:
                self._targets[target] = left
            else:
                self._targets.pop(target, None)
            self._changed[target] = None
            if owner.priority >= Priority.STRATEGY:
                self._urgent[target] = None

    def targets(self, owner: Owner, scope: str) -> list[Target]:
        """Return the targets of an owner's desired values in a scope."""
        return [desired.target for desired in self._scopes.get((owner, scope), ())]

    def of(self, target: Target) -> list[tuple[Owner, DesiredValue]]:
        """Return the owners' desired values of a target, in no particular order; for any thread."""
        return [(owner, desired) for (owner, _), desired in self._targets.get(target, ())]

    def take_changed(self) -> dict[Target, None]:
        """Take the targets whose desired values changed since the last call."""
        changed, self._changed, self._urgent = self._changed, {}, {}
        return changed

    def take_urgent(self) -> dict[Target, None]:
        """Take only those of them that a strategy changed, or a person."""
        urgent, self._urgent = self._urgent, {}
        for target in urgent:
            self._changed.pop(target, None)
        return urgent

    def put_back(self, changed: dict[Target, None]) -> None:
        """Have targets count as changed: that were taken, or are to be read."""
        self._changed = changed | self._changed

    @property
    def changed(self) -> bool:
        """True if there are changed targets."""
        return bool(self._changed)

    @property
    def urgent(self) -> bool:
        """True if a strategy or a person has changed any."""
        return bool(self._urgent)
