from __future__ import annotations

import json

from koord_manager.metrics_apis.core.history import UsageHistory
from koord_manager.metrics_apis.core.samples import UsageSample, read_sample
from koord_model.times import rfc3339

NOW = 1_790_000_000.0


def sample(at: float, *pods: str) -> UsageSample:
    usage = {"resources": {"cpu": "1", "memory": "1Gi"}}
    reported = [{"namespace": "ns", "name": name, "podUsage": usage} for name in pods]
    status = {"updateTime": rfc3339(NOW + at), "podsMetric": reported}
    made = read_sample(json.dumps(status).encode(), NOW + 10_000, 300.0)
    assert made is not None
    return made


def times(history: UsageHistory, node: str, now: float) -> list[float]:
    return [sample.time - NOW for sample in history.of(node, NOW + now, 900)]


def test_old_samples_go_but_not_the_newest_one() -> None:
    history = UsageHistory()
    for at in range(0, 601, 60):
        history.add("n1", sample(at, "a"))
    assert times(history, "n1", 600) == [360, 420, 480, 540, 600]
    assert times(history, "n1", 1400) == [600]
    assert times(history, "n1", 1501) == []


def test_a_clock_that_is_set_back_starts_anew() -> None:
    history = UsageHistory()
    for at in (0, 60, 60, 30):
        history.add("n1", sample(at))
    assert times(history, "n1", 60) == [0, 30]


def test_frequent_reports_and_many_nodes_stay_in_bounds() -> None:
    history = UsageHistory()
    for at in range(100):
        history.add("n1", sample(at, "a", "b"))
    kept = history.of("n1", NOW + 100, 900)
    assert len(kept) == 32
    assert len({id(sample.keys) for sample in kept}) == 1, "names are kept once"
    history.add("n2", sample(5000))
    assert times(history, "n1", 100) == []


def test_what_is_no_report_is_no_sample() -> None:
    assert read_sample(b"7", NOW, 300.0) is None
    odd = {"name": "a", "podUsage": {"resources": {"cpu": "-1", "memory": "x"}}, "extensions": 7}
    made = read_sample(json.dumps({"podsMetric": [odd]}).encode(), NOW, 300.0)
    assert made is not None
    assert [str(amount) for amount in made.amounts] == ["nan"] * 3
