"""Kinds that thresholds may be about, whether a collector of them is there or not."""

from __future__ import annotations

import pytest
from koordlet.metric_cache.core.metric_kinds import KINDS, MetricKind


@pytest.fixture(autouse=True)
def _numa_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("free", "min_watermark", "low_watermark", "inactive_file"):
        kind = MetricKind(f"node_numa_memory_{name}", "bytes", "", ("numa_node_id",))
        monkeypatch.setitem(KINDS, kind.name, KINDS.get(kind.name, kind))
