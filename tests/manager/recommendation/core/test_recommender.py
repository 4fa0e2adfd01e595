from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.recommendation.core.recommender import RecommendationPolicy, Recommender
from koord_manager.recommendation.core.reconciler import encode_checkpoints
from koord_prediction.amount import ResourceAmount
from koord_prediction.checkpoint import LearntHistogram

NOW = 1_795_168_800.0
DAY = 86400.0
MIB = 1 << 20
HOURLY = RecommendationPolicy(least_history=3600.0)


def learnt(
    *used: ResourceAmount, policy: RecommendationPolicy = HOURLY, step: float = 60.0
) -> Recommender:
    made = Recommender(policy)
    for index, one in enumerate(used):
        made.learn([("web", "main", one)], NOW + index * step)
    return made


def test_nothing_is_said_too_early() -> None:
    made = learnt(*[ResourceAmount(1, 100 * MIB)] * 60)
    assert made.history("web", NOW + 3599) == 3599
    assert made.advise("web", NOW + 3599, ["main"]) == ()
    assert [one.container for one in made.advise("web", NOW + 3600, ["main"])] == ["main"]
    assert made.advise("web", NOW + 3600, ["other"]) == ()
    assert made.advise("db", NOW + 3600, ["main"]) == ()


def test_percentile_margin_and_peak() -> None:
    used = [ResourceAmount(1.0, 100 * MIB)] * 97 + [ResourceAmount(4.0, 800 * MIB)] * 3
    (advice,) = learnt(*used).advise("web", NOW + 2 * 3600, ["main"])
    # A bucket is 5 % wide, and its end counts.
    assert 1.15 <= advice.request.cpu <= 1.15 * 1.06 + 0.03
    assert 4.6 <= advice.limit.cpu <= 4.6 * 1.06 + 0.03
    assert 115 * MIB <= advice.request.memory <= 129 * MIB
    assert 920 * MIB <= advice.limit.memory <= 980 * MIB
    cpu, memory = advice.decisions
    assert cpu.given[0].name == "p90 of usage"
    assert [one.name for one in memory.given] == [
        "p95 of usage",
        "margin",
        "half-life",
        "samples",
        "history",
    ]


def test_what_was_long_ago_weighs_little() -> None:
    made = learnt(*[ResourceAmount(8.0, 100 * MIB)] * 100)
    for minute in range(100):
        made.learn([("web", "main", ResourceAmount(1.0, 100 * MIB))], NOW + 7 * DAY + 60 * minute)
    (advice,) = made.advise("web", NOW + 8 * DAY, ["main"])
    assert advice.request.cpu < 1.3
    assert advice.limit.cpu > 8, "the peak is one of the whole history"


@pytest.mark.parametrize(
    ("kills", "at", "request_mib"),
    [
        # By a fifth, for a week; the same kill reported twice, and a smaller one before it.
        ([(1000, 0), (1000, 0), (10, -1)], DAY, 1200),
        ([(1000, 0)], 7 * DAY + 1, 125),
        # A smaller kill takes nothing away within a week.
        ([(1000, 0), (100, DAY)], 2 * DAY, 1200),
        # However much the container has by now.
        ([(1000, 0), (1200, 0), (1440, 0)], DAY, 1200),
        # An old kill is forgotten at the next one, though another pod tells of it still.
        ([(4096, 0), (100, 30 * DAY), (4096, 0)], 30 * DAY, 196),
        # A small limit is raised by 100 MB.
        ([(64, 0)], DAY, 160),
    ],
)
def test_after_a_kill_it_gets_more(
    kills: list[tuple[int, float]], at: float, request_mib: float
) -> None:
    made = learnt(*[ResourceAmount(0.1, 100 * MIB)] * 100)
    for limit, when in kills:
        made.killed("web", "main", limit * MIB, NOW + when)
    (advice,) = made.advise("web", NOW + at, ["main"])
    assert advice.request.memory == pytest.approx(request_mib * MIB, rel=0.001)
    assert advice.limit.memory >= advice.request.memory
    assert ("ran out of memory" in str(advice.decisions[1])) is (request_mib != 125)


@pytest.mark.parametrize(
    ("limit", "largest", "request_mib"),
    [
        (1000, 2000.0, 1200),
        (1000, 1200.0, 1200),
        (1000, 1100.5, 1100),
        (4000, 1100.0, 1100),
        (4000, math.inf, 4800),
        (4000, 50.0, 125),
    ],
)
def test_a_kill_asks_for_no_more_than_the_largest_node_has(
    limit: int, largest: float, request_mib: int
) -> None:
    made = learnt(*[ResourceAmount(0.1, 100 * MIB)] * 100)
    made.killed("web", "main", limit * MIB, NOW)
    (advice,) = made.advise("web", NOW + DAY, ["main"], largest * MIB)
    assert advice.request.memory == advice.limit.memory == request_mib * MIB
    said = str(advice.decisions[1])
    cut = limit * 1.2 > largest
    assert ("min(floor after a kill, largest node)" in said) is cut
    assert ("largest node" in said) is cut
    # A larger node has come: it is not forgotten how much was to be asked for.
    (later,) = made.advise("web", NOW + DAY, ["main"], 1e6 * MIB)
    assert later.request.memory == limit * 1.2 * MIB


def test_several_pods_at_once_are_several_samples() -> None:
    made = Recommender(HOURLY)
    for minute in range(100):
        round_ = [("web", "main", ResourceAmount(1.0, MIB))] * 8 + [
            ("web", "main", ResourceAmount(5.0, MIB))
        ] * 2
        made.learn(round_, NOW + 60 * minute)
    (advice,) = made.advise("web", NOW + 2 * 3600, ["main"])
    assert advice.request.cpu > 5, "p90 of ten pods of which two use 5 cores"
    assert advice.decisions[0].given[3].value == 1000


def test_a_restart_forgets_nothing() -> None:
    used = [ResourceAmount(0.1 * (1 + n % 9), (50 + n) * MIB) for n in range(100)]
    made = learnt(*used)
    made.killed("web", "main", 90 * MIB, NOW + 60)
    other = Recommender(HOURLY)
    for name, (learning, model) in made.checkpoints("web").items():
        other.restore("web", name, learning, model, NOW + 6000)
    at = NOW + 2 * 3600
    assert other.advise("web", at, ["main"]) == made.advise("web", at, ["main"])


def test_what_is_not_asked_about_any_more_is_forgotten() -> None:
    made = learnt(*[ResourceAmount(1, MIB)] * 100)
    made.learn([("db", "main", ResourceAmount(1, MIB))], NOW)
    made.keep_only(["db"])
    assert set(made.workloads()) == {"db"}
    assert made.advise("web", NOW + DAY, ["main"]) == ()
    assert made.checkpoints("web") == {}


_AMOUNTS = st.builds(ResourceAmount, st.floats(0, 256), st.floats(0, 2**38))


@given(st.lists(_AMOUNTS, min_size=1, max_size=50), st.floats(0, 1))
def test_limits_are_never_below_requests(used: list[ResourceAmount], margin: float) -> None:
    made = learnt(*used, policy=RecommendationPolicy(margin=margin, least_history=0))
    (advice,) = made.advise("web", NOW + 3600, ["main"])
    assert advice.limit.cpu >= advice.request.cpu >= 0.01
    assert advice.limit.memory >= advice.request.memory >= 16 * MIB
    greatest = max(one.cpu for one in used)
    assert advice.limit.cpu >= min(greatest, 1000)


def test_containers_of_changing_names_do_not_add_up() -> None:
    made = Recommender(HOURLY)
    for index in range(100):
        made.learn([("web", f"run-{index}", ResourceAmount(1.0, MIB))], NOW)
        made.killed("web", f"other-{index}", 1, NOW)
    assert len(made.checkpoints("web")) == 48
    made.forget(NOW + 14 * DAY + 1)
    made.learn([("web", "new", ResourceAmount(1.0, MIB))], NOW + 14 * DAY + 1)
    assert list(made.checkpoints("web")) == ["new"]


def test_a_kill_of_what_is_not_known_changes_nothing() -> None:
    made = Recommender(HOURLY)
    made.killed("web", "main", 100 * MIB, NOW)
    assert not made.workloads()


def test_what_is_kept_of_all_containers_fits_into_an_annotation() -> None:
    made = Recommender(HOURLY)
    used = [ResourceAmount(0.01 * 1.05**n, 1e7 * 1.05**n) for n in range(220)]
    names = [f"{index:063}" for index in range(48)]
    for minute in range(40):
        samples = [("n" * 253, name, one) for name in names for one in used[minute % 7 :: 7]]
        made.learn(samples, NOW + 977 * minute)
    assert len(encode_checkpoints(made.checkpoints("n" * 253))) < 220 << 10


def test_what_was_kept_may_be_anybodys() -> None:
    (learning, model) = learnt(*[ResourceAmount(0.1, 100 * MIB)] * 100).checkpoints("web")["main"]
    at = NOW + 6000
    made = Recommender(HOURLY)
    later = replace(learning, since=1e300, killed_at=1e300, floor=1.0)
    for index in range(100):
        made.restore("web", f"c{index}", later, model, at)
    assert len(made.checkpoints("web")) == 48
    assert made.history("web", at) == 0
    made.killed("web", "c0", 1000 * MIB, at + 60)
    (advice,) = made.advise("web", at + DAY, ["c0"])
    assert advice.request.memory == 1200 * MIB
    blank = LearntHistogram(model.cpu.reference, 0 * model.cpu.weights)
    other = Recommender(HOURLY)
    other.restore("web", "main", learning, replace(model, cpu=blank), at)
    assert other.advise("web", at, ["main"]) == ()
