"""``koordctl quota tree``: what quotas use, may use, and borrow of each other. No IO."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_model.demand import Amounts
from koord_model.elastic_quota import RESERVED_QUOTAS, ROOT_QUOTA, ElasticQuota, amounts_in, parse
from koord_model.keys import ANNOTATION_QUOTA_RUNTIME, CPU, LABEL_QUOTA_PARENT, MEMORY
from koord_model.quantity import milli_text

from koordctl import amounts
from koordctl.columns import table
from koordctl.render import clean

_HEADER = ("QUOTA", "RESOURCE", "USED", "RUNTIME", "MIN", "MAX", "", "BORROWS")
_WIDTH = 20
_UNLIMITED = 1 << 60
"""Nobody has so much: a max of it is none."""


@dataclass(frozen=True, slots=True)
class ShownQuota:
    """A quota as the API has it; ``runtime`` is what it may use, as the scheduler wrote it."""

    quota: ElasticQuota
    runtime: Amounts

    def lent(self, resource: str) -> int:
        """Return the part of its min that others may use, since its pods do not ask for it."""
        least = self.quota.min.get(resource, 0)
        return max(0, least - self.runtime.get(resource, least))

    def borrowed(self, resource: str) -> int:
        """Return its pods' usage beyond its min."""
        return max(0, self.quota.used.get(resource, 0) - self.quota.min.get(resource, 0))


def shown_quota(document: Mapping[str, Any]) -> ShownQuota:
    """The quota in an API object; what of it cannot be used counts as absent."""
    quota, _ = parse(document)
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    try:
        runtime = amounts_in(annotations.get(ANNOTATION_QUOTA_RUNTIME)) or {}
    except ValueError:
        runtime = {}
    return ShownQuota(quota, runtime)


def documents_of(summaries: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Quotas as the API has them, of the page on which a scheduler shows them."""
    return [
        {
            "metadata": {
                "name": name,
                "labels": {LABEL_QUOTA_PARENT: str(summary.get("parentName", ""))},
                "annotations": {ANNOTATION_QUOTA_RUNTIME: json.dumps(summary.get("runtime") or {})},
            },
            "spec": {"min": summary.get("min") or {}, "max": summary.get("max") or {}},
            "status": {"used": summary.get("used") or {}},
        }
        for name, summary in summaries.items()
    ]


def lines(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each quota and resource, children below their parents."""
    quotas = {shown.quota.name: shown for shown in map(shown_quota, documents)}
    shared = {name: quota for name, quota in quotas.items() if name not in RESERVED_QUOTAS}
    if not shared:
        yield "No ElasticQuota found."
        return
    children = _children(shared)
    rows = [
        row
        for depth, shown in _in_order(children)
        for row in _rows(depth, shown, children[_parent(shown, shared)])
    ]
    alone = [quotas[name] for name in sorted(RESERVED_QUOTAS & quotas.keys()) if name != ROOT_QUOTA]
    rows += [row for shown in alone if shown.quota.used for row in _rows(0, shown, [])]
    yield from table([_HEADER, *rows])


def _parent(shown: ShownQuota, quotas: Mapping[str, ShownQuota]) -> str:
    """Its parent; the root where that is not there."""
    seen, name = {shown.quota.name}, shown.quota.parent
    while name in quotas and name not in seen:
        seen.add(name)
        name = quotas[name].quota.parent
    is_placed = shown.quota.parent in quotas and name not in seen
    return shown.quota.parent if is_placed else ROOT_QUOTA


def _children(quotas: Mapping[str, ShownQuota]) -> Mapping[str, list[ShownQuota]]:
    found: defaultdict[str, list[ShownQuota]] = defaultdict(list)
    for name in sorted(quotas):
        found[_parent(quotas[name], quotas)].append(quotas[name])
    return found


def _in_order(
    children: Mapping[str, list[ShownQuota]], parent: str = ROOT_QUOTA, depth: int = 0
) -> Iterator[tuple[int, ShownQuota]]:
    for child in children.get(parent, ()):
        yield depth, child
        yield from _in_order(children, child.quota.name, depth + 1)


def _rows(
    depth: int, shown: ShownQuota, siblings: Sequence[ShownQuota]
) -> Iterator[tuple[str, ...]]:
    quota = shown.quota
    name = "  " * depth + clean(quota.name)
    for resource in sorted({*quota.max, *quota.used}):
        used, most = quota.used.get(resource, 0), quota.max.get(resource)
        limit = shown.runtime.get(resource, most)
        over = _overuse(resource, used, limit)
        yield (
            name,
            clean(resource),
            _amount(resource, used),
            _amount(resource, shown.runtime.get(resource)),
            _amount(resource, quota.min.get(resource)),
            _amount(resource, most),
            amounts.bar(used, limit if limit is None or limit < _UNLIMITED else None, _WIDTH),
            "; ".join(filter(None, (over, _borrowing(shown, resource, siblings)))),
        )
        name = ""


def _overuse(resource: str, used: int, limit: int | None) -> str:
    """Describe the usage above the limit, which lasts until some pods end or are evicted."""
    over = used - limit if limit is not None else 0
    return f"over by {_amount(resource, over)}" if over > 0 else ""


def _borrowing(shown: ShownQuota, resource: str, siblings: Sequence[ShownQuota]) -> str:
    """Describe the amount that is borrowed of others, and the lenders."""
    borrowed = shown.borrowed(resource)
    if not borrowed or not siblings:
        return ""
    lenders = [
        f"{clean(each.quota.name)} lends {_amount(resource, lent)}"
        for each in siblings
        if each is not shown and (lent := each.lent(resource))
    ]
    return f"{_amount(resource, borrowed)}{' (' + ', '.join(lenders) + ')' if lenders else ''}"


def _amount(resource: str, value: int | None) -> str:
    if value is None or value >= _UNLIMITED:
        return amounts.UNKNOWN
    if resource == CPU:
        return milli_text(value)
    return amounts.memory(value) if resource == MEMORY else str(value)
