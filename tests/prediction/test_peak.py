from collections.abc import Mapping

import pytest
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount as Amount
from koord_prediction.models import SYS, item_uid
from koord_prediction.peak import PeakPolicy, PodDemand, predict

PROD, MID, BATCH, FREE, NONE = PriorityClass
DAY = 86400.0
NOW = 1.7e9
OLD = NOW - DAY - 1
NODE = Amount(32, 320)
RULES = PeakPolicy(margin=10)
QUIET = {SYS: Amount(), item_uid(PROD): Amount(), item_uid(NONE): Amount()}
"""Models of a node that does nothing."""


def pod(
    uid: str,
    request: Amount,
    *,
    priority: PriorityClass = PROD,
    started: float = OLD,
    ending: bool = False,
) -> PodDemand:
    return PodDemand(uid, priority, request, started, ending)


def pair(amount: Amount | None) -> tuple[float, float]:
    assert amount is not None
    return amount.cpu, amount.memory


# The pods, their peaks before the margin of 10%, and what follows: peak, reclaimable of 32, 320.
BY_POD = {
    "one pod": (
        [pod("a", Amount(4, 40))],
        {"a": Amount(1, 10)},
        (1.1, 11),
        (2.9, 29),
    ),
    "each by itself": (
        # b uses more than it asks for; that takes nothing from what a leaves.
        [pod("a", Amount(4, 40)), pod("b", Amount(1, 10))],
        {"a": Amount(1, 10), "b": Amount(2, 20)},
        (3.3, 33),
        (2.9, 29),
    ),
    "one resource over, one under": (
        [pod("a", Amount(4, 10))],
        {"a": Amount(1, 20)},
        (1.1, 22),
        (2.9, 0),
    ),
    "cold": (
        [pod("a", Amount(4, 40)), pod("b", Amount(8, 80), started=NOW - DAY)],
        {"a": Amount(1, 10), "b": Amount(1, 10)},
        (9.1, 91),
        (2.9, 29),
    ),
    "cold takes nothing from what others leave": (
        # 32 - 1.1 are left; the 8 that b asks for are not counted there.
        [pod("a", Amount(30, 300)), pod("b", Amount(8, 80), started=NOW)],
        {"a": Amount(1, 10)},
        (9.1, 91),
        (28.9, 289),
    ),
    "just warm": (
        [pod("a", Amount(4, 40), started=OLD)],
        {"a": Amount(0, 0)},
        (0, 0),
        (4, 40),
    ),
    "age unknown": (
        [pod("a", Amount(4, 40), started=0)],
        {"a": Amount(1, 10)},
        (4, 40),
        (0, 0),
    ),
    "no model": ([pod("a", Amount(4, 40))], {}, (4, 40), (0, 0)),
    "ending": (
        [
            pod("a", Amount(4, 40), ending=True),
            pod("b", Amount(4, 40), ending=True, started=NOW),
        ],
        {"a": Amount(1, 10)},
        (0, 0),
        (0, 0),
    ),
    "classes": (
        [
            pod("a", Amount(4, 40), priority=NONE),
            pod("b", Amount(4, 40), priority=BATCH),
            pod("c", Amount(4, 40), priority=MID),
            pod("d", Amount(4, 40), priority=FREE),
        ],
        {uid: Amount(1, 10) for uid in "abcd"},
        (1.1, 11),
        (2.9, 29),
    ),
    "full node": (
        # 32 - 22 cores are left, though requests would leave 18; memory leaves nothing.
        [pod("a", Amount(40, 400))],
        {"a": Amount(20, 300)},
        (22, 330),
        (10, 0),
    ),
    "no pods": ([], {}, (0, 0), (0, 0)),
}


@pytest.mark.parametrize(("pods", "peaks", "peak", "spare"), BY_POD.values(), ids=BY_POD)
def test_by_pod(
    pods: list[PodDemand],
    peaks: Mapping[str, Amount],
    peak: tuple[float, float],
    spare: tuple[float, float],
) -> None:
    found = predict(pods, peaks, NODE, NOW, RULES).by_pod
    assert found is not None
    assert pair(found.peak) == pytest.approx(peak)
    assert pair(found.reclaimable) == pytest.approx(spare)


# sys, prod and none before the margin; requests of prod pods; peak, reclaimable of 32, 320.
BY_PRIORITY = {
    "all three": (
        (Amount(1, 10), Amount(3, 30), Amount(1, 10)),
        [pod("a", Amount(8, 80)), pod("b", Amount(2, 20), priority=NONE)],
        (5.5, 55),
        (4.5, 45),
    ),
    "others ask in vain": (
        (Amount(1, 10), Amount(3, 30), Amount()),
        [pod("a", Amount(8, 80)), pod("b", Amount(9, 90), priority=BATCH)],
        (4.4, 44),
        (3.6, 36),
    ),
    "more than asked": ((Amount(), Amount(4, 4), Amount()), [pod("a", Amount(4, 40))], (4.4, 4.4),
                        (0, 35.6)),
    "cold counts too": ((Amount(), Amount(1, 10), Amount()),
                        [pod("a", Amount(4, 40), started=NOW)], (1.1, 11), (2.9, 29)),
    "ending does not": ((Amount(), Amount(1, 10), Amount()), [pod("a", Amount(4, 40), ending=True)],
                        (1.1, 11), (0, 0)),
    "full node": ((Amount(10, 100), Amount(10, 200), Amount()), [pod("a", Amount(40, 400))],
                  (22, 330), (10, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("models", "pods", "peak", "spare"), BY_PRIORITY.values(), ids=BY_PRIORITY)
def test_by_priority(
    models: tuple[Amount, Amount, Amount],
    pods: list[PodDemand],
    peak: tuple[float, float],
    spare: tuple[float, float],
) -> None:
    parts = dict(zip((SYS, item_uid(PROD), item_uid(NONE)), models, strict=True))
    peaks = {**{one.uid: Amount() for one in pods}, **parts}
    found = predict(pods, peaks, NODE, NOW, RULES).by_priority
    assert found is not None
    assert pair(found.peak) == pytest.approx(peak)
    assert pair(found.reclaimable) == pytest.approx(spare)


@pytest.mark.parametrize("lacking", list(QUIET))
def test_nothing_is_reported_while_a_model_lacks(lacking: str) -> None:
    peaks = {uid: peak for uid, peak in QUIET.items() if uid != lacking}
    found = predict([], peaks, NODE, NOW, RULES)
    assert found.prod is None
    assert found.by_priority is None
    assert found.by_pod is not None


def test_reported_is_the_greater_peak_and_the_smaller_spare_of_each_resource() -> None:
    peaks = {
        **QUIET,
        "a": Amount(2, 10),
        item_uid(PROD): Amount(1, 20),
    }
    found = predict([pod("a", Amount(8, 80))], peaks, NODE, NOW, RULES)
    assert found.by_pod is not None
    assert found.by_priority is not None
    assert found.prod is not None
    assert pair(found.by_pod.peak) == pytest.approx((2.2, 11))
    assert pair(found.by_priority.peak) == pytest.approx((1.1, 22))
    assert pair(found.prod.peak) == pytest.approx((2.2, 22))
    assert pair(found.prod.reclaimable) == pytest.approx((5.8, 58))


def test_without_the_node_there_is_a_peak_and_nothing_to_borrow() -> None:
    found = predict([pod("a", Amount(8, 80))], {**QUIET, "a": Amount(1, 10)}, None, NOW, RULES)
    assert found.prod is not None
    assert pair(found.prod.peak) == pytest.approx((1.1, 11))
    assert found.prod.reclaimable is None


@pytest.mark.parametrize(("margin", "peak"), [(0, 1.0), (10, 1.1), (100, 2.0)])
def test_the_margin_is_in_percent(margin: float, peak: float) -> None:
    found = predict(
        [pod("a", Amount(8, 80))],
        {"a": Amount(1, 10)},
        NODE,
        NOW,
        PeakPolicy(margin=margin),
    )
    assert found.by_pod is not None
    assert found.by_pod.peak.cpu == pytest.approx(peak)


def test_cold_pods_are_named() -> None:
    pods = [
        pod("old", Amount(1, 1)),
        pod("young", Amount(1, 1), started=NOW),
        pod("unseen", Amount(1, 1)),
        pod("batch", Amount(1, 1), priority=BATCH, started=NOW),
    ]
    found = predict(pods, {"old": Amount(), "young": Amount()}, NODE, NOW, RULES)
    assert found.cold == ("young", "unseen")


def test_a_shorter_cold_start_predicts_sooner() -> None:
    pods = [pod("a", Amount(4, 40), started=NOW - 3601)]
    assert predict(pods, {"a": Amount()}, NODE, NOW, PeakPolicy(cold_start=3600)).cold == ()
    assert predict(pods, {"a": Amount()}, NODE, NOW, PeakPolicy()).cold == ("a",)
