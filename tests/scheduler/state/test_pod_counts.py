"""Counters live as long as somebody has them; how they count is in ``test_nodes``."""

from __future__ import annotations

import gc
import tracemalloc
from weakref import ref

import numpy as np
from koord_model.label_selector import LabelSelector, Operator, Requirement
from koord_scheduler.state.pod_counts import PodCounts, SpreadSelector
from koord_scheduler.state.pod_labels import pod_labels

LENGTH = 4
MOST = 3


def selector(*apps: str) -> SpreadSelector:
    return SpreadSelector("a", LabelSelector((Requirement("app", Operator.IN, frozenset(apps)),)))


def test_a_counter_ends_with_those_who_have_it_and_counts_right_until_then() -> None:
    counts = PodCounts(LENGTH, most_bytes=MOST * LENGTH * 8)
    held = counts.counter(selector("web"))
    dropped = ref(counts.counter(selector("web", "db")))
    counts.add(1, pod_labels("a", {"app": "web"}))
    for number in range(MOST):
        assert dropped() is not None
        counts.counter(selector(f"{number}"))
    gc.collect()
    assert dropped() is None
    assert counts.counter(selector("web")) is held
    counts.lengthen(2 * LENGTH)
    counts.add(5, pod_labels("a", {"app": "web"}))
    counts.add(1, pod_labels("a", {"app": "web"}), -1)
    assert np.flatnonzero(held.rows).tolist() == [5]
    assert counts.counter(selector("web", "db")).rows.tolist() == held.rows.tolist()


def test_selectors_that_come_and_go_leave_nothing_behind() -> None:
    counts = PodCounts(LENGTH, most_bytes=MOST * LENGTH * 8)
    counts.add(1, pod_labels("a", {"app": "web"}))

    def memory_after(numbers: range) -> int:
        for number in numbers:
            pod = pod_labels("a", {"app": f"{number}"})
            counts.counter(selector("web", f"{number}"))
            counts.counter(selector(f"{number}"))
            counts.add(2, pod)
            counts.add(2, pod, -1)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = memory_after(range(200))
        assert memory_after(range(200, 1200)) - before < 16_000
    finally:
        tracemalloc.stop()
