"""State of a node's usage, as plain data for people. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koord_model.quantity import quantity_text
from koord_model.times import rfc3339

from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.load_node import NodeThresholds, thresholds
from koord_scheduler.plugins.load_aware.load_table import LoadTable

_SUMS = ("filter", "filterProd", "score", "scoreProd")


def load_document(loads: NodeLoads, table: LoadTable, row: int) -> dict[str, Any]:
    """Of a row with a node: what counts as used, thresholds in per cent, and pods' estimates."""
    settings, node = table.estimator.settings, loads.nodes[row]
    resources, report = settings.resources, loads.reports.get(node.name)
    reported = report.pods if report is not None else {}
    sums = table.sums[:, row].reshape(len(_SUMS), -1)
    return {
        "node": node.name,
        "updateTime": rfc3339(report.updated) if report and report.updated > 0 else None,
        "isExpired": bool(table.is_expired[row]),
        "allocatable": _quantities(resources, table.capacity[:, row]),
        "used": {
            name: _quantities(resources, amounts) for name, amounts in zip(_SUMS, sums, strict=True)
        },
        "thresholds": _per_cent(resources, thresholds(node, settings, for_prod=False)),
        "prodThresholds": _per_cent(resources, thresholds(node, settings, for_prod=True)),
        "pods": [
            {
                "pod": pod.key,
                "estimated": _quantities(resources, table.estimator.usage(pod.load)),
                "isReported": pod.key in reported,
            }
            for pod in sorted(loads.assigned_on(row))
        ],
    }


def _quantities(resources: Iterable[str], amounts: Iterable[float]) -> dict[str, str]:
    both = zip(resources, amounts, strict=True)
    return {name: quantity_text(name, int(amount)) for name, amount in both}


def _per_cent(resources: Iterable[str], found: NodeThresholds) -> dict[str, Any]:
    per_cent = dict(zip(resources, found.per_cent, strict=True))
    window = found.window._asdict() if found.window is not None else None
    return {"perCent": per_cent, "ofProd": found.of_prod, "window": window}
