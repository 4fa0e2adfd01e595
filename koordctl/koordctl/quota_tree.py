"""``koordctl quota tree``: what quotas use, may use, and borrow of each other. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from koord_model.elastic_quota import RESERVED_QUOTAS, ROOT_QUOTA, ElasticQuota, parse
from koord_model.keys import ANNOTATION_QUOTA_RUNTIME, CPU, LABEL_QUOTA_PARENT, MEMORY
from koord_model.quantity import milli_text
from koord_model.quota_tree import UNLIMITED, PlacedQuota, in_order

from koordctl import amounts
from koordctl.output.tables import Block, table
from koordctl.render import clean

_HEADER = ("QUOTA", "RESOURCE", "USED", "RUNTIME", "MIN", "MAX", "", "BORROWS")
_WIDTH = 20


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


def lines(documents: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """A line for each quota and resource, children below their parents."""
    quotas = {quota.name: quota for quota, _ in map(parse, documents)}
    shared = {name: quota for name, quota in quotas.items() if name not in RESERVED_QUOTAS}
    if not shared:
        yield "No ElasticQuota found."
        return
    rows = [row for placed in in_order(shared) for row in _rows(placed)]
    alone = [quotas[name] for name in sorted(RESERVED_QUOTAS & quotas.keys()) if name != ROOT_QUOTA]
    rows += [row for quota in alone if quota.used for row in _rows(PlacedQuota(0, quota, ()))]
    yield table([_HEADER, *rows])


def _rows(placed: PlacedQuota) -> Iterator[tuple[str, ...]]:
    depth, quota, siblings = placed
    name = "  " * depth + clean(quota.name)
    for resource in sorted({*quota.max, *quota.used}):
        used, most = quota.used.get(resource, 0), quota.max.get(resource)
        limit = quota.runtime.get(resource, most)
        over = _overuse(resource, used, limit)
        yield (
            name,
            clean(resource),
            _amount(resource, used),
            _amount(resource, quota.runtime.get(resource)),
            _amount(resource, quota.min.get(resource)),
            _amount(resource, most),
            amounts.bar(used, limit if limit is None or limit < UNLIMITED else None, _WIDTH),
            "; ".join(filter(None, (over, _borrowing(quota, resource, siblings)))),
        )
        name = ""


def _overuse(resource: str, used: int, limit: int | None) -> str:
    """Describe the usage above the limit, which lasts until some pods end or are evicted."""
    over = used - limit if limit is not None else 0
    return f"over by {_amount(resource, over)}" if over > 0 else ""


def _borrowing(quota: ElasticQuota, resource: str, siblings: Sequence[ElasticQuota]) -> str:
    """Describe the amount that is borrowed of others, and the lenders."""
    borrowed = quota.borrowed(resource)
    if not borrowed or not siblings:
        return ""
    lenders = [
        f"{clean(each.name)} lends {_amount(resource, lent)}"
        for each in siblings
        if each is not quota and (lent := each.lent(resource))
    ]
    return f"{_amount(resource, borrowed)}{' (' + ', '.join(lenders) + ')' if lenders else ''}"


def _amount(resource: str, value: int | None) -> str:
    if value is None or value >= UNLIMITED:
        return amounts.UNKNOWN
    if resource == CPU:
        return milli_text(value)
    return amounts.memory(value) if resource == MEMORY else str(value)
