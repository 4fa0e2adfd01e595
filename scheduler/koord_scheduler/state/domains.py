"""Nodes by the value of a label, and how many pods are on those with each value. No IO."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from koord_scheduler.objects.node_selector import RequiredNodes
from koord_scheduler.objects.pod import Toleration
from koord_scheduler.state.arrays import Amounts, Codes, Mask, Rows, span

_FEW = 16


class NodeScope(NamedTuple):
    """Nodes that count: those with all these labels, that a pod may run on by its own word.

    ``None`` for what it requires or tolerates: that does not matter. Without ``keys``, nodes that
    lack a label are those of value "".
    """

    keys: tuple[str, ...] | None
    required: RequiredNodes | None
    tolerations: tuple[Toleration, ...] | None


class Domains:
    """The domains of a label, as they are in one ``version`` of the nodes.

    ``codes`` has the domain of each row, below ``number``; -1 for none. ``is_counted`` says on
    which rows pods count, ``present`` are the domains of these, ``counted_codes`` the codes, with
    ``number`` for rows that do not count. ``are_of_all``: no node is without a domain. ``lacking``
    are the rows of nodes without the label; ``None`` if all nodes have it. ``few_present`` are
    those ``present`` in plain numbers, which are faster for a few.
    """

    def __init__(
        self, version: int, codes: Codes, is_counted: Mask, *, is_node: Mask, lacking: Mask
    ) -> None:
        has_domain = is_node & (codes >= 0)
        sizes = np.bincount(codes[has_domain])
        self.version = version
        self.codes = codes
        self.number = int(codes.max(initial=-1)) + 1
        self.is_counted = is_counted
        self.counted_codes: Codes = np.where(is_counted, codes, self.number)
        self.are_of_all = bool((has_domain == is_node).all())
        self.lacking = lacking if lacking.any() else None
        self._sizes = sizes[sizes > 0]
        self._smallest = int(self._sizes.min()) if len(self._sizes) else 0
        self._nodes = int(sizes.sum())
        self.present = np.flatnonzero(np.bincount(codes[is_counted]))
        self.few_present = self.present.tolist() if self.number <= _FEW else None

    def number_among(self, rows: Rows) -> int:
        """Count the domains with a node among these rows; all of the rows have a domain."""
        if self._nodes - len(rows) < self._smallest:
            return len(self._sizes)  # those that are missing would not fill any domain
        return int(np.count_nonzero(np.bincount(self.codes[span(rows)])))

    def rows_where(self, holds: Mask, rows: Rows) -> Mask | None:
        """Of each of these rows, whether something holds in its domain; ``None``: on all nodes.

        ``holds`` is by code, with one more at the end for nodes without a domain.
        """
        if (holds[:-1] if self.are_of_all else holds).all():
            return None
        found: Mask = holds[self.codes[span(rows)]]
        return found


class DomainCache:
    """Results for one version of the nodes: domains, and rows with some labels."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.domains: dict[tuple[str, NodeScope], Domains] = {}
        self.with_labels: dict[tuple[str, ...], Mask] = {}

    @property
    def size(self) -> int:
        """Approximate bytes of the domains: all are as long."""
        one = next(iter(self.domains.values()), None)
        return 2 * one.codes.nbytes * len(self.domains) if one is not None else 0


class DomainCounts:
    """Number of some pods in each domain, kept up to date as they come and go.

    ``by_code`` has one more at the end, of 0, where code -1 points.
    """

    def __init__(self, domains: Domains, pods: Amounts | None) -> None:
        """``pods`` are those of each row; ``None``: there are none yet."""
        self._codes = domains.counted_codes
        self._end = domains.number
        self.by_code: Amounts = np.zeros(self._end + 1)
        if pods is not None:
            self.by_code += np.bincount(self._codes, pods, self._end + 1)
            self.by_code[self._end] = 0.0

    def add(self, row: int, number: int) -> None:
        """So many pods more are on a row, or fewer."""
        code = self._codes[row]
        if code < self._end:
            self.by_code[code] += number
