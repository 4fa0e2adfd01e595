"""A tree of quotas: what each of them asks for, uses, and may use. No IO.

What a quota asks for goes up to its parent, up to its max; what it may use comes down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from koord_model.demand import Amounts
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota

from koord_scheduler.plugins.elastic_quota.siblings import Siblings


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A quota in its tree.

    ``child_request`` is the sum of what its children and its own pods ask for, ``limited`` what of
    its request counts for its parent. ``own_…`` are of its own pods alone; ``non_preemptible_…``
    of those that may not be preempted. ``allocated`` is what its pods, or its children, are
    guaranteed.
    """

    quota: ElasticQuota
    parent: QuotaNode | None
    place: int = 0
    lends: bool = True
    children: list[QuotaNode] = field(default_factory=list)
    siblings: Siblings | None = None
    child_request: Counter[str] = field(default_factory=Counter)
    limited: dict[str, int] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    own_request: Counter[str] = field(default_factory=Counter)
    own_used: Counter[str] = field(default_factory=Counter)
    own_non_preemptible_request: Counter[str] = field(default_factory=Counter)
    own_non_preemptible_used: Counter[str] = field(default_factory=Counter)
    non_preemptible_request: Counter[str] = field(default_factory=Counter)
    non_preemptible_used: Counter[str] = field(default_factory=Counter)
    allocated: Counter[str] = field(default_factory=Counter)
    guaranteed: dict[str, int] = field(default_factory=dict)
    runtime: Mapping[str, int] = field(default_factory=dict)
    runtime_version: int = -1

    def mask(self, amounts: Amounts) -> dict[str, int]:
        """Return the counted part of a pod's requests: resources that ``max`` names."""
        most = self.quota.max
        return {name: amount for name, amount in amounts.items() if name in most}

    def request(self, resource: str) -> int:
        """Return its request: not less than its min if it does not lend."""
        asked = self.child_request[resource]
        return asked if self.lends else max(asked, self.quota.min.get(resource, 0))

    def requests(self) -> dict[str, int]:
        """The same of all resources."""
        names = dict.fromkeys((*self.child_request, *(() if self.lends else self.quota.min)))
        return {name: self.request(name) for name in names}

    def limit_request(self, resource: str) -> int:
        """Return the part of its request that counts for its parent."""
        most = self.quota.max.get(resource)
        asked = self.request(resource)
        return asked if most is None else min(asked, most)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Its parent, and so on; without the root."""
        node = self.parent
        while node is not None and node.parent is not None:
            yield node
            node = node.parent


class QuotaTree:
    """The quotas below one root.

    ``scales_min`` as ``Siblings``. With ``guarantees_usage`` what pods use is theirs for certain,
    and no quota lends its min.
    """

    def __init__(
        self,
        quotas: Iterable[ElasticQuota],
        *,
        scales_min: bool = True,
        guarantees_usage: bool = False,
    ) -> None:
        self.root = QuotaNode(ElasticQuota(ROOT_QUOTA, is_parent=True), None)
        self.nodes: dict[str, QuotaNode] = {}
        self.orphans: list[ElasticQuota] = []
        """Quotas whose parent is not there; they count as children of the root."""
        self.total: Amounts = {}
        self.version = 0
        self._scales_min = scales_min
        self._guarantees = guarantees_usage
        self._grow({quota.name: quota for quota in quotas})

    def set_total(self, total: Amounts) -> None:
        """Set the total that all of them share."""
        if total != self.total:
            self.total = total
            self.version += 1

    def add_request(
        self, node: QuotaNode, amounts: Amounts, sign: int = 1, *, non_preemptible: bool = False
    ) -> None:
        """A pod of a quota is there, or with -1 for ``sign`` not any more."""
        counted = {name: sign * amount for name, amount in node.mask(amounts).items()}
        _add(node.own_request, counted)
        if non_preemptible:
            _add(node.own_non_preemptible_request, counted)
            for ancestor in _upwards(node):
                _add(ancestor.non_preemptible_request, counted)
        self._ask(node, counted)

    def add_used(
        self, node: QuotaNode, amounts: Amounts, sign: int = 1, *, non_preemptible: bool = False
    ) -> None:
        """A pod of a quota has a node, or with -1 for ``sign`` not any more."""
        counted = {name: sign * amount for name, amount in node.mask(amounts).items()}
        _add(node.own_used, counted)
        if non_preemptible:
            _add(node.own_non_preemptible_used, counted)
        for ancestor in _upwards(node):
            _add(ancestor.used, counted)
            if non_preemptible:
                _add(ancestor.non_preemptible_used, counted)
        if self._guarantees:
            self._allocate(node, counted)

    def runtime(self, node: QuotaNode) -> Mapping[str, int]:
        """Return a quota's runtime; resources that are not in it are not limited."""
        if node.runtime_version == self.version:
            return node.runtime
        parent = node.parent
        if parent is None:
            node.runtime = self.total
        elif parent.siblings is not None:
            parent.siblings.share(self.runtime(parent))
            node.runtime = parent.siblings.runtime(node.place)
        node.runtime_version = self.version
        return node.runtime

    def scaled_min(self, node: QuotaNode) -> Mapping[str, int]:
        """The min of a quota as it counts at present."""
        self.runtime(node)
        siblings = node.parent.siblings if node.parent is not None else None
        return siblings.scaled_min(node.place) if siblings is not None else node.quota.min

    # ---- what goes up

    def _ask(self, node: QuotaNode, changes: Mapping[str, int]) -> None:
        while node.parent is not None and changes:
            _add(node.child_request, changes)
            passed_on: dict[str, int] = {}
            for name in changes:
                now = node.limit_request(name)
                if delta := now - node.limited.get(name, 0):
                    passed_on[name] = delta
                    node.limited[name] = now
                    self._tell(node, name, now, is_request=True)
            node, changes = node.parent, passed_on
        _add(node.child_request, changes)

    def _allocate(self, node: QuotaNode, changes: Mapping[str, int]) -> None:
        while node.parent is not None and changes:
            _add(node.allocated, changes)
            passed_on: dict[str, int] = {}
            for name in changes:
                now = max(node.allocated[name], node.quota.min.get(name, 0))
                if delta := now - node.guaranteed.get(name, 0):
                    passed_on[name] = delta
                    node.guaranteed[name] = now
                    self._tell(node, name, now, is_request=False)
            node, changes = node.parent, passed_on
        _add(node.allocated, changes)

    def _tell(self, node: QuotaNode, resource: str, amount: int, *, is_request: bool) -> None:
        siblings = node.parent.siblings if node.parent is not None else None
        if siblings is not None:
            (siblings.set_request if is_request else siblings.set_guaranteed)(
                node.place, resource, amount
            )
            self.version += 1

    # ---- shape

    def _lends(self, quota: ElasticQuota) -> bool:
        return quota.allows_lent_resource and not self._guarantees

    def _grow(self, quotas: Mapping[str, ElasticQuota]) -> None:
        for name in sorted(quotas):
            self.nodes[name] = QuotaNode(quotas[name], None, lends=self._lends(quotas[name]))
        for name, node in self.nodes.items():
            node.parent = self._parent(quotas, name)
            node.place = len(node.parent.children)
            node.parent.children.append(node)
        everything = sorted({name for quota in quotas.values() for name in quota.max})
        for parent in (self.root, *self.nodes.values()):
            resources = everything if parent is self.root else sorted(parent.quota.max)
            parent.siblings = self._siblings(parent.children, resources)
        for node in self.nodes.values():
            nothing = dict.fromkeys(node.quota.min, 0)
            if not node.lends:
                self._ask(node, nothing)
            if self._guarantees:
                self._allocate(node, nothing)

    def _siblings(self, nodes: Sequence[QuotaNode], resources: Sequence[str]) -> Siblings | None:
        if not nodes:
            return None
        quotas = [node.quota for node in nodes]
        return Siblings(quotas, resources, scales_min=self._scales_min, lends=self._lends)

    def _parent(self, quotas: Mapping[str, ElasticQuota], name: str) -> QuotaNode:
        """Its parent; the root if that is not there, or is below the quota itself."""
        parent = quotas[name].parent
        seen, above = {name}, parent
        while above in quotas and above not in seen:
            seen.add(above)
            above = quotas[above].parent
        if parent in quotas and above not in seen:
            return self.nodes[parent]
        if parent != ROOT_QUOTA:
            self.orphans.append(quotas[name])
        return self.root


def _upwards(node: QuotaNode | None) -> Iterator[QuotaNode]:
    while node is not None:
        yield node
        node = node.parent


def _add(amounts: Counter[str], changes: Mapping[str, int]) -> None:
    for name, amount in changes.items():
        amounts[name] += amount
