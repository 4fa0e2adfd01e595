from collections.abc import Mapping

import pytest
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.models import SYS, item_uid
from koord_prediction.peak import PeakPolicy, PodDemand, Prediction, predict

PROD, MID, BATCH, FREE, NONE = PriorityClass
DAY = 86400.0
NOW = 1.7e9
OLD = NOW - DAY - 1
RULES = PeakPolicy(margin=10)
Size = float | tuple[float, float]
"""Cores and bytes, or cores alone where the bytes are ten times as many."""


def amount(size: Size) -> ResourceAmount:
    return ResourceAmount(*size) if isinstance(size, tuple) else ResourceAmount(size, 10 * size)


NODE = amount(32)


def pod(
    uid: str,
    request: Size,
    priority: PriorityClass = PROD,
    *,
    started: float = OLD,
    ending: bool = False,
) -> PodDemand:
    return PodDemand(uid, priority, amount(request), started, ending)


QUIET: dict[str, Size] = {SYS: 0, item_uid(PROD): 0, item_uid(NONE): 0}
"""Models of a node that does nothing."""


def predicted(
    pods: list[PodDemand],
    peaks: Mapping[str, Size],
    rules: PeakPolicy = RULES,
    node: ResourceAmount | None = NODE,
) -> Prediction:
    return predict(pods, {uid: amount(one) for uid, one in peaks.items()}, node, NOW, rules)


def same(found: ResourceAmount | None, expected: Size) -> bool:
    assert found is not None
    return (found.cpu, found.memory) == pytest.approx(
        (amount(expected).cpu, amount(expected).memory)
    )


# The pods, their peaks before the margin of 10 %, and the result: peak, reclaimable of 32.
BY_POD: dict[str, tuple[list[PodDemand], dict[str, Size], Size, Size]] = {
    "one pod": ([pod("a", 4)], {"a": 1}, 1.1, 2.9),
    # b uses more than it requests; that takes nothing from what a leaves.
    "each by itself": ([pod("a", 4), pod("b", 1)], {"a": 1, "b": 2}, 3.3, 2.9),
    "one resource over, one under": ([pod("a", (4, 10))], {"a": (1, 20)}, (1.1, 22), (2.9, 0)),
    "cold": ([pod("a", 4), pod("b", 8, started=NOW - DAY)], {"a": 1, "b": 1}, 9.1, 2.9),
    # 32 - 1.1 are left; the 8 that b requests are not counted there.
    "cold takes nothing away": ([pod("a", 30), pod("b", 8, started=NOW)], {"a": 1}, 9.1, 28.9),
    "just warm": ([pod("a", 4, started=OLD)], {"a": 0}, 0, 4),
    "age unknown": ([pod("a", 4, started=0)], {"a": 1}, 4, 0),
    "no model": ([pod("a", 4)], {}, 4, 0),
    "ending": ([pod("a", 4, ending=True), pod("b", 4, ending=True, started=NOW)], {"a": 1}, 0, 0),
    "classes": (
        [pod("a", 4, NONE), pod("b", 4, BATCH), pod("c", 4, MID), pod("d", 4, FREE)],
        dict.fromkeys("abcd", 1),
        1.1,
        2.9,
    ),
    # 32 - 22 cores are left, though requests would leave 18; memory leaves nothing.
    "full node": ([pod("a", 40)], {"a": (20, 300)}, (22, 330), (10, 0)),
    "no pods": ([], {}, 0, 0),
}


@pytest.mark.parametrize(("pods", "peaks", "peak", "spare"), BY_POD.values(), ids=BY_POD)
def test_by_pod(pods: list[PodDemand], peaks: dict[str, Size], peak: Size, spare: Size) -> None:
    found = predicted(pods, peaks).by_pod
    assert found is not None
    assert same(found.peak, peak)
    assert same(found.reclaimable, spare)


# Peaks of sys, prod and none before the margin; requests of pods; peak, reclaimable of 32.
BY_PRIORITY: dict[str, tuple[tuple[Size, Size, Size], list[PodDemand], Size, Size]] = {
    "all three": ((1, 3, 1), [pod("a", 8), pod("b", 2, NONE)], 5.5, 4.5),
    "others request in vain": ((1, 3, 0), [pod("a", 8), pod("b", 9, BATCH)], 4.4, 3.6),
    "more than requested": ((0, (4, 4), 0), [pod("a", 4)], (4.4, 4.4), (0, 35.6)),
    "cold counts too": ((0, 1, 0), [pod("a", 4, started=NOW)], 1.1, 2.9),
    "ending does not": ((0, 1, 0), [pod("a", 4, ending=True)], 1.1, 0),
    "full node": ((10, (10, 200), 0), [pod("a", 40)], (22, 330), (10, 0)),
}


@pytest.mark.parametrize(("models", "pods", "peak", "spare"), BY_PRIORITY.values(), ids=BY_PRIORITY)
def test_by_priority(
    models: tuple[Size, Size, Size], pods: list[PodDemand], peak: Size, spare: Size
) -> None:
    peaks = {one.uid: 0 for one in pods} | dict(zip(QUIET, models, strict=True))
    found = predicted(pods, peaks).by_priority
    assert found is not None
    assert same(found.peak, peak)
    assert same(found.reclaimable, spare)


@pytest.mark.parametrize("lacking", list(QUIET))
def test_nothing_is_reported_while_a_model_lacks(lacking: str) -> None:
    found = predicted([], {uid: peak for uid, peak in QUIET.items() if uid != lacking})
    assert (found.prod, found.by_priority) == (None, None)
    assert found.by_pod is not None


def test_reported_is_the_greater_peak_and_the_smaller_spare_of_each_resource() -> None:
    peaks: dict[str, Size] = {**QUIET, "a": (2, 10), item_uid(PROD): (1, 20)}
    found = predicted([pod("a", 8)], peaks)
    assert found.prod is not None
    assert same(found.prod.peak, (2.2, 22))
    assert same(found.prod.reclaimable, (5.8, 58))
    # Without the node there is a peak and nothing to borrow.
    found = predicted([pod("a", 8)], peaks, node=None)
    assert found.prod is not None
    assert same(found.prod.peak, (2.2, 22))
    assert found.prod.reclaimable is None


@pytest.mark.parametrize(("margin", "peak"), [(0, 1.0), (10, 1.1), (100, 2.0)])
def test_the_margin_is_in_percent(margin: float, peak: float) -> None:
    found = predicted([pod("a", 8)], {"a": 1}, PeakPolicy(margin=margin))
    assert found.by_pod is not None
    assert same(found.by_pod.peak, peak)


def test_cold_pods_are_named() -> None:
    pods = [
        pod("old", 1),
        pod("young", 1, started=NOW - 3601),
        pod("unseen", 1),
        pod("batch", 1, BATCH, started=NOW),
    ]
    peaks: dict[str, Size] = {"old": 0, "young": 0}
    assert predicted(pods, peaks).cold == ("young", "unseen")
    assert predicted(pods, peaks, PeakPolicy(cold_start=3600)).cold == ("unseen",)
