from collections.abc import Sequence

import numpy as np
import pytest
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.backtest import Backtest, PredictionMethod, backtest
from koord_prediction.models import SYS, Models
from koord_prediction.peak import PeakPolicy
from koord_prediction.trace import Trace, TracePod

PROD, MID, BATCH, FREE, NONE = PriorityClass
STEP = 60.0
NAN = float("nan")


def trace(**cpu: Sequence[float]) -> Trace:
    """Pods by name, each with a request of 4 cores and 40 bytes; memory is ten times CPU."""
    classes = {"batch": BATCH, "sys": NONE}
    pods = tuple(
        TracePod(
            SYS if name == "sys" else name,
            classes.get(name, PROD),
            ResourceAmount() if name == "sys" else ResourceAmount(4, 40),
        )
        for name in cpu
    )
    columns = np.column_stack([np.array(values, dtype=float) for values in cpu.values()])
    return Trace(
        np.linspace(0, STEP * (len(columns) - 1), len(columns)), STEP, pods, columns, columns * 10
    )


def run(
    of: Trace,
    *,
    horizon: float = 2 * STEP,
    warm_up: float = 2 * STEP,
    cold_start: float = 0,
    percentile: float = 0.95,
) -> Backtest:
    # No margin, so that what is predicted is the end of a bucket and nothing else.
    rules = PeakPolicy(percentile, percentile, 0, cold_start)
    return backtest(of, Models(), rules, horizon, warm_up)


def test_a_trace_with_a_known_answer() -> None:
    """Ten steps, horizon two, the first two not judged: windows begin at steps 2 to 7.

    One pod at 1 core, which uses 2 in step 6. At steps 2 and 3 nothing is ahead, at 4 and 5
    the burst is, from 6 on it is known. So requests (4) are 3 too high in four windows (2, 3, 6,
    7) and 2 in two; the last peak (1, 1, 1, 1, 2, 2 against 1, 1, 2, 2, 1, 1) is 1 too low in two
    windows and 1 too high in two.
    """
    found = run(trace(web=[1, 1, 1, 1, 1, 1, 2, 1, 1, 1]))
    assert found.windows == 6
    assert found.steps == 10
    assert found.pods == 1
    assert found.cold == 0
    assert found.mean_peak.cpu == pytest.approx((4 * 1 + 2 * 2) / 6)
    last = found.scores["cpu"][PredictionMethod.LAST_PEAK]
    assert last.under == pytest.approx(2 / 6)
    assert last.mean_under == last.worst_under == pytest.approx(1)
    assert last.mean_under_percent == last.worst_under_percent == pytest.approx(50)
    assert last.mean_over == pytest.approx(2 / 6)
    assert last.mean_over_percent == pytest.approx(100 * 2 / 6)
    requests = found.scores["cpu"][PredictionMethod.REQUESTS]
    assert requests.under == requests.worst_under == requests.mean_under_percent == 0
    assert requests.mean_over == pytest.approx((4 * 3 + 2 * 2) / 6)
    # Of two steps the 99th percentile is the lesser one, which was never missed.
    assert last.under_p99 == 0
    predicted = found.scores["cpu"][PredictionMethod.PREDICTION]
    assert predicted.under == pytest.approx(2 / 6)
    # 1 core is in the bucket that ends at 0.5·(1.05²³ - 1), and the classes that idle, sys and
    # none, in the first, which ends at 0.025. 2 cores are in the bucket to 0.5·(1.05³³ - 1).
    quiet, burst = 0.5 * (1.05**23 - 1) + 0.05, 0.5 * (1.05**33 - 1) + 0.05
    assert predicted.worst_under == pytest.approx(2 - quiet)
    # Once it is known the burst is predicted: too high in the two windows left.
    assert predicted.mean_over == pytest.approx((2 * (quiet - 1) + 2 * (burst - 1)) / 6)
    memory = found.scores["memory"][PredictionMethod.LAST_PEAK]
    assert memory.worst_under == pytest.approx(10)


def test_pods_that_start_later_are_no_surprise_and_those_that_end_free_theirs() -> None:
    """Old ends with step 4, and new begins with 5: neither is ever missed."""
    found = run(trace(old=[3] * 5 + [NAN] * 5, new=[NAN] * 5 + [3] * 5))
    assert found.scores["cpu"][PredictionMethod.LAST_PEAK].under == 0
    # Five windows with one pod, 4 against 3; and that at 4, see below.
    assert found.scores["cpu"][PredictionMethod.REQUESTS].mean_over == pytest.approx(
        (5 * 1 + 4) / 6
    )
    # At step 4 old still runs, and nothing of it is left in what comes: 3 too high, once.
    assert found.scores["cpu"][PredictionMethod.LAST_PEAK].mean_over == pytest.approx(3 / 6)


def test_others_classes_are_not_prods_and_the_system_is() -> None:
    found = run(trace(web=[1] * 8, batch=[9] * 8, sys=[2] * 8))
    assert found.pods == 2
    assert found.mean_peak.cpu == pytest.approx(3)
    assert found.scores["cpu"][PredictionMethod.REQUESTS].mean_over == pytest.approx(1)
    by_priority = found.scores["cpu"][PredictionMethod.BY_PRIORITY]
    assert by_priority.under == 0
    assert by_priority.mean_over < 0.25, (
        "buckets' ends: of sys, of prod, and of none, which is idle"
    )
    assert found.scores["cpu"][PredictionMethod.BY_POD].worst_under == pytest.approx(2, rel=0.06)
    assert found.scores["cpu"][PredictionMethod.PREDICTION] == by_priority


def test_cold_pods_count_with_their_request() -> None:
    found = run(trace(web=[1] * 10), cold_start=100 * STEP)
    assert found.cold == 1
    assert found.scores["cpu"][PredictionMethod.PREDICTION].mean_over == pytest.approx(3)
    later = run(trace(web=[1] * 10), cold_start=2 * STEP)
    # Born at step 0; of the windows at 2 to 7 only the first is not past its cold start.
    assert later.cold == pytest.approx(1 / 6)


def test_a_step_not_measured_is_no_zero_for_the_models() -> None:
    gap = [1, 1, NAN, NAN, NAN, NAN, NAN, NAN, 1, 1, 1, 1]
    found = run(trace(web=gap, sys=[0] * len(gap)), percentile=0.4)
    assert found.windows == 8
    # Had the gap counted as 0, most of what is known would be zeros when the pod is back.
    assert found.scores["cpu"][PredictionMethod.BY_POD].under == 0
    assert found.scores["cpu"][PredictionMethod.BY_PRIORITY].under == 0


@pytest.mark.parametrize(
    ("of", "options", "reason"),
    [
        ({"web": [1] * 10}, {"warm_up": 8 * STEP}, r"the trace lasts 0\.15 h; expected more than"),
        ({"web": [1] * 10}, {"horizon": 9 * STEP, "warm_up": 0}, r"the trace lasts 0\.15 h;"),
        ({"batch": [1] * 10}, {}, "nothing to predict"),
    ],
)
def test_a_short_trace_or_one_without_prod_is_refused(
    of: dict[str, list[float]], options: dict[str, float], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        run(trace(**of), **options)


def test_a_horizon_below_a_step_is_a_step() -> None:
    assert run(trace(web=[1] * 10), horizon=1).horizon == STEP
