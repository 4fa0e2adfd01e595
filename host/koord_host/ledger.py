"""Who wants what: the wishes of all owners, by scope and by target."""

from __future__ import annotations

from koord_host.wishes import Owner, Target, Wish

_Scope = tuple[Owner, str]


class Ledger:
    """Wishes as they stand, and the targets whose wishes have changed since last asked."""

    def __init__(self) -> None:
        self._scopes: dict[_Scope, tuple[Wish, ...]] = {}
        # Tuples, never changed: other threads read them (``of``).
        self._targets: dict[Target, tuple[tuple[_Scope, Wish], ...]] = {}
        # A dictionary for its order: what is wished first is looked at first.
        self._changed: dict[Target, None] = {}

    def put(self, owner: Owner, scope: str, wishes: tuple[Wish, ...]) -> None:
        """Replace what an owner wants in a scope; the same tuple again costs nothing."""
        key = (owner, scope)
        before = self._scopes.get(key, ())
        if before is wishes:
            return
        self._scopes[key] = wishes
        if not wishes:
            del self._scopes[key]
        if before == wishes:
            return
        # Dictionaries for their order; a wish said twice counts once.
        old, new = dict.fromkeys(before), dict.fromkeys(wishes)
        added: dict[Target, tuple[tuple[_Scope, Wish], ...]] = {}
        for wish in old:
            if wish not in new:
                added[wish.target] = ()
        for wish in new:
            if wish not in old:
                added[wish.target] = (*added.get(wish.target, ()), (key, wish))
        for target, more in added.items():
            # In one assignment: nobody sees a target between two wishes.
            known = self._targets.get(target, ())
            left = tuple(one for one in known if one[0] != key or one[1] in new) + more
            if left:
                self._targets[target] = left
            else:
                self._targets.pop(target, None)
            self._changed[target] = None

    def targets(self, owner: Owner, scope: str) -> list[Target]:
        """What an owner wants something of in a scope."""
        return [wish.target for wish in self._scopes.get((owner, scope), ())]

    def of(self, target: Target) -> list[tuple[Owner, Wish]]:
        """What owners want of a target, in no particular order; for any thread."""
        return [(owner, wish) for (owner, _), wish in self._targets.get(target, ())]

    def take_changed(self) -> dict[Target, None]:
        """The targets whose wishes have changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return changed

    def put_back(self, changed: dict[Target, None]) -> None:
        """Have targets count as changed: that were taken, or are to be looked at."""
        self._changed = changed | self._changed

    @property
    def changed(self) -> bool:
        """Whether there are such."""
        return bool(self._changed)
