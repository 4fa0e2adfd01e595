"""The quotas as rows of a table, children below their parents. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from koord_model.elastic_quota import RESERVED_QUOTAS, ElasticQuota
from koord_model.quota_tree import UNLIMITED, in_order

Document = dict[str, Any]

_QUOTAS = 500
_RESOURCES = 8
"""Of one quota."""


def quota_rows(quotas: Mapping[str, ElasticQuota]) -> Document:
    """The first quotas by name in the order of their tree, with what they lend and borrow.

    CPU is in millicores, everything else whole; ``None`` means no limit.
    """
    shared = {name: quota for name, quota in quotas.items() if name not in RESERVED_QUOTAS}
    rows = [
        {"name": placed.quota.name, "depth": placed.depth, "resources": list(_rows(placed.quota))}
        for placed in islice(in_order(shared), _QUOTAS)
    ]
    return {"quotas": len(shared), "rows": rows}


def _rows(quota: ElasticQuota) -> Iterator[Document]:
    for name in sorted({*quota.max, *quota.used})[:_RESOURCES]:
        most = quota.max.get(name, UNLIMITED)
        yield {
            "resource": name,
            "used": quota.used.get(name, 0),
            "runtime": quota.runtime.get(name),
            "min": quota.min.get(name, 0),
            "max": most if most < UNLIMITED else None,
            "lends": quota.lent(name) if quota.allows_lent_resource else 0,
            "borrows": quota.borrowed(name),
        }
