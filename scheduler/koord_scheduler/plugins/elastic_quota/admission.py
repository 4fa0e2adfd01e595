"""Admission of one more pod by a quota, or its refusal in Koordinator's words. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.quantity import quantity_texts

from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaTrees, TreeQuota


class AdmissionRules(NamedTuple):
    """``uses_runtime``: quotas are held to what they may use at present, and not to their max.

    With ``checks_parents`` so are those above them.
    """

    uses_runtime: bool = True
    checks_parents: bool = False


class QuotaRefusal(NamedTuple):
    """A quota would use more than its ``limit``: of the resources ``exceeded``.

    ``path`` leads from below the root to the pod's own quota, if it is not that one which refuses.
    ``non_preemptible``: what may not be preempted would be more than the quota's min.
    """

    quota: str
    limit: Amounts
    used: Amounts
    request: Amounts
    exceeded: tuple[str, ...]
    path: tuple[str, ...] = ()
    non_preemptible: bool = False

    def text(self) -> str:
        """The refusal as Koordinator has it in conditions and Events of pods."""
        limit, used, request = map(_listed, (self.limit, self.used, self.request))
        exceeded = " ".join(self.exceeded)
        asked = f"pod's request: {request}, exceedDimensions: [{exceeded}]"
        if self.non_preemptible:
            found = f"quotaName: {self.quota}, min: {limit}, nonPreemptibleUsed: {used}, {asked}"
            return f"Insufficient non-preemptible quotas, {found}"
        who = f"quotaNameTopo: [{' '.join(self.path)}]" if self.path else f"quotaName: {self.quota}"
        return f"Insufficient quotas, {who}, runtime: {limit}, used: {used}, {asked}"


def refusal(
    trees: QuotaTrees,
    tree_quota: TreeQuota,
    amounts: Amounts,
    rules: AdmissionRules,
    fixed: Amounts | None = None,
) -> QuotaRefusal | None:
    """Return a quota's refusal of pods that ask for ``amounts`` together; ``None``: none.

    ``fixed`` is what those of them ask for that may not be preempted; ``None``: there are none.
    """
    node = tree_quota.node
    request = node.mask(amounts)
    limit = limit_of(trees, tree_quota, rules)
    exceeded = _exceeded({*node.used, *request}, limit, node.used, request)
    if exceeded:
        return QuotaRefusal(tree_quota.name, limit, node.used, request, exceeded)
    if fixed is not None:
        least, used, asked = node.quota.min, node.non_preemptible_used, node.mask(fixed)
        exceeded = _exceeded({*used, *asked}, least, used, asked)
        if exceeded:
            return QuotaRefusal(
                tree_quota.name, least, used, asked, exceeded, (), non_preemptible=True
            )
    return _parents_refusal(trees, tree_quota, request, rules) if rules.checks_parents else None


def limit_of(trees: QuotaTrees, tree_quota: TreeQuota, rules: AdmissionRules) -> Mapping[str, int]:
    """Return the limits of a quota's pods; resources that are not in it are not limited."""
    return trees.runtime(tree_quota) if rules.uses_runtime else tree_quota.node.quota.max


def _parents_refusal(
    trees: QuotaTrees, tree_quota: TreeQuota, request: Amounts, rules: AdmissionRules
) -> QuotaRefusal | None:
    path: tuple[str, ...] = (tree_quota.name,)
    for node in tree_quota.node.ancestors():
        path = (node.quota.name, *path)
        limit = limit_of(trees, TreeQuota(tree_quota.tree, node), rules)
        exceeded = _exceeded(request, limit, node.used, request)
        if exceeded:
            return QuotaRefusal(node.quota.name, limit, node.used, request, exceeded, path)
    return None


def _exceeded(
    names: Iterable[str], limit: Amounts, used: Mapping[str, int], request: Amounts
) -> tuple[str, ...]:
    over = [
        name
        for name in names
        if name in limit and used.get(name, 0) + request.get(name, 0) > limit[name]
    ]
    return tuple(sorted(over)) if over else ()


def _listed(amounts: Amounts) -> str:
    listed = [f"{name}:{text}" for name, text in quantity_texts(amounts).items()]
    return ",".join(listed) or "<empty>"
