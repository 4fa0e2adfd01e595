"""A gang's needs, and the capacity of a tree's leaves for it. No IO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from koord_scheduler.plugins.coscheduling.network.gather_spec import GatherNeeds
from koord_scheduler.plugins.coscheduling.network.tree import Domain, NetworkTree
from koord_scheduler.state.arrays import Amounts, Codes, Mask

Counts = tuple[int, ...]
"""Numbers of members by class."""


@dataclass(frozen=True, eq=False)
class GatherProblem:
    """Members of a gang wait, ``counts`` by class, and are to be placed on leaves of a tree.

    ``slots`` are how many of one class alone a leaf has room for, by class and leaf. Of several
    classes a leaf takes what fits together: ``requests`` by class and resource into ``free`` by
    resource and leaf. By leaf, ``bound`` are members that are there already, ``existing`` those
    and all other pods that the gang wants to be near.
    """

    tree: NetworkTree
    needs: GatherNeeds
    counts: Counts
    slots: Codes
    requests: Amounts
    free: Amounts
    bound: Codes
    existing: Codes

    @property
    def total(self) -> int:
        """Number of waiting members."""
        return sum(self.counts)

    @property
    def last(self) -> int:
        """The number of the layer of single nodes."""
        return len(self.tree.layers) - 1

    @cached_property
    def is_free(self) -> bool:
        """True if a domain may take any number of pods."""
        return not any(multiple > 1 for multiple in self.needs.multiples)

    @cached_property
    def units(self) -> Counts:
        """By layer, what numbers of pods in a domain have to be multiples of, parts included."""
        upwards = accumulate(reversed(self.needs.multiples), math.lcm)
        return tuple(reversed(tuple(upwards)))

    @cached_property
    def bound_in(self) -> tuple[Codes, ...]:
        """By layer, the bound members of each domain."""
        return self._by_layer(self.bound)

    @cached_property
    def existing_in(self) -> tuple[Codes, ...]:
        """By layer, the existing pods of each domain."""
        return self._by_layer(self.existing)

    @cached_property
    def slots_in(self) -> tuple[Codes, ...]:
        """By layer, the slots of each class and domain; those of one class by its multiples."""
        found, below = list[Codes](), self.slots
        for layer in range(self.last, -1, -1):
            if len(self.counts) > 1:
                found.append(self.tree.sums(layer, self.slots))
                continue
            if found:
                below = np.add.reduceat(below, self._first_children(layer), axis=-1)
            below = self._usable(layer, below)
            found.append(below)
        return tuple(reversed(found))

    @cached_property
    def pods_in(self) -> tuple[Codes, ...]:
        """By layer, at most how many members each domain could take; of one class, any number."""
        if len(self.counts) == 1:
            return tuple(one[0] for one in self.slots_in)
        most = np.array(self.counts)[:, None]
        return tuple(np.minimum(one, most).sum(axis=0) for one in self.slots_in)

    @cached_property
    def rooms_in(self) -> tuple[Amounts, ...]:
        """By layer, how often the scarcest class of the gang fits into each domain."""
        counts = np.array(self.counts)[:, None]
        return tuple((one / counts).min(axis=0) for one in self.slots_in)

    def usable(self, domain: Domain, most: int) -> int:
        """The most pods that a domain may take, up to ``most``, by the multiples of its layer."""
        bound = int(self.bound_in[domain.layer][domain.place])
        unit = self.needs.multiples[domain.layer] if bound else self.units[domain.layer]
        return max(most - (bound + most) % unit, 0)

    def keeps_multiple(self, domain: Domain, pods: int) -> bool:
        """True if a domain may take so many pods by the multiple of its layer."""
        bound = int(self.bound_in[domain.layer][domain.place])
        return not pods or (bound + pods) % self.needs.multiples[domain.layer] == 0

    def fits(self, leaf: int, counts: Codes) -> Mask:
        """Return a mask of the numbers of members, by class on the last axis, that fit a leaf."""
        found: Mask = np.all(counts @ self.requests <= self.free[:, leaf], axis=-1)
        return found

    def most(self, leaf: int, one: int, counts: Codes) -> int:
        """Return the number of a class's members that fit on a leaf beside other classes'."""
        if len(self.counts) == 1:
            return int(self.slots[one, leaf])
        asked = self.requests[one]
        room = self.free[:, leaf] - counts @ self.requests
        fits = np.floor(room[asked > 0] / asked[asked > 0]).min(initial=np.inf)
        return int(min(self.slots[one, leaf], max(fits, 0.0)))

    def combinations(self, leaf: int) -> Codes:
        """The numbers of members, by class along the last axis, that a leaf may take, but none.

        Where any number may be taken, only those that would be too many with one more.
        """
        shape = np.minimum(self.slots[:, leaf], self.counts) + 1
        counts: Codes = np.moveaxis(np.indices(tuple(shape.tolist())), 0, -1)
        allowed = self.fits(leaf, counts)
        if self.is_free:
            allowed &= ~_allows_more(allowed)
        else:
            bound, multiple = int(self.bound[leaf]), self.needs.multiples[self.last]
            allowed &= (bound + counts.sum(axis=-1)) % multiple == 0
        allowed[(0,) * allowed.ndim] = False
        found: Codes = counts[allowed]
        return found

    def _by_layer(self, amounts: Codes) -> tuple[Codes, ...]:
        return tuple(self.tree.sums(layer, amounts) for layer in range(self.last + 1))

    def _first_children(self, layer: int) -> Codes:
        starts, below = self.tree.starts[layer], self.tree.starts[layer + 1]
        return np.searchsorted(below, starts[:-1])

    def _usable(self, layer: int, slots: Codes) -> Codes:
        bound, multiples = self.bound_in[layer], self.needs.multiples[layer]
        unit = np.where(bound > 0, multiples, self.units[layer])
        return np.maximum(slots - (bound + slots) % unit, 0)


def _allows_more(allowed: Mask) -> Mask:
    """Return a mask that is true where one more of some class is allowed, too."""
    found = np.zeros_like(allowed)
    for axis in range(allowed.ndim):
        before: list[slice] = [slice(None)] * allowed.ndim
        behind = list(before)
        before[axis], behind[axis] = slice(0, -1), slice(1, None)
        found[tuple(before)] |= allowed[tuple(behind)]
    return found
