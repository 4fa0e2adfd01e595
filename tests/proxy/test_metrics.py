"""What Prometheus gets to see."""

from __future__ import annotations

from typing import Any

from koord_proxy.metrics import MAX_METHODS, OTHER, Gauges, Metrics
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families


def samples(metrics: Metrics) -> dict[str, Any]:
    """Values as they arrive, by name and labels."""
    text = generate_latest(metrics.registry).decode()
    return {
        f"{sample.name}{sorted(sample.labels.values()) or ''}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_before_anything_happened():
    # Each proxy counts for itself.
    Metrics().tally("/x").calls = 1
    assert samples(Metrics()) == {
        "koord_runtime_proxy_connections": 0,
        "koord_runtime_proxy_unmanaged": 0,
        "koord_runtime_proxy_database_ok": 1,
        "koord_runtime_proxy_registration_problems": 0,
    }


def test_calls_and_bytes_by_method():
    metrics = Metrics()
    tally = metrics.tally("/runtime.v1.RuntimeService/Version")
    assert metrics.tally("/runtime.v1.RuntimeService/Version") is tally
    tally.calls, tally.from_client, tally.from_backend = 3, 10, 200
    found = samples(metrics)
    path = "/runtime.v1.RuntimeService/Version"
    assert found[f"koord_runtime_proxy_calls_total['{path}']"] == 3
    assert found[f"koord_runtime_proxy_bytes_total['{path}', 'client']"] == 10
    assert found[f"koord_runtime_proxy_bytes_total['{path}', 'backend']"] == 200


def test_a_client_cannot_invent_methods_without_end():
    metrics = Metrics()
    for number in range(MAX_METHODS + 100):
        metrics.tally(f"/service/Method{number}").calls += 1
    assert len(metrics.tallies) == MAX_METHODS + 1
    assert metrics.tallies[OTHER].calls == 100
    # Those known stay known.
    assert metrics.tally("/service/Method0").calls == 1
    assert samples(metrics)["koord_runtime_proxy_calls_total['other']"] == 100


def test_hooks_by_server_stage_and_outcome():
    metrics = Metrics()
    metrics.hook_outcomes.labels("koordlet", "PreCreateContainer", "applied").inc()
    metrics.hook_seconds.labels("koordlet", "PreCreateContainer").observe(0.003)
    metrics.intercepted.labels("CreateContainer", "hooked").inc()
    found = samples(metrics)
    server = "'PreCreateContainer', 'applied', 'koordlet'"
    assert found[f"koord_runtime_proxy_hook_outcomes_total[{server}]"] == 1
    server = "'PreCreateContainer', 'koordlet'"
    assert found[f"koord_runtime_proxy_hook_seconds_count[{server}]"] == 1
    assert found[f"koord_runtime_proxy_hook_seconds_bucket['0.002', {server}]"] == 0
    assert found[f"koord_runtime_proxy_hook_seconds_bucket['0.005', {server}]"] == 1
    labels = "'CreateContainer', 'hooked'"
    assert found[f"koord_runtime_proxy_intercepted_calls_total[{labels}]"] == 1


def test_what_is_read_when_somebody_asks():
    metrics = Metrics()
    metrics.gauges = Gauges(
        connections=lambda: 2,
        records=lambda: {"pod": 3, "container": 4},
        unmanaged=lambda: 1,
        breakers=lambda: {"koordlet": 2},
        database=lambda: False,
        registrations=lambda: 5,
    )
    assert samples(metrics) == {
        "koord_runtime_proxy_connections": 2,
        "koord_runtime_proxy_records['pod']": 3,
        "koord_runtime_proxy_records['container']": 4,
        "koord_runtime_proxy_unmanaged": 1,
        "koord_runtime_proxy_breaker_state['koordlet']": 2,
        "koord_runtime_proxy_database_ok": 0,
        "koord_runtime_proxy_registration_problems": 5,
    }
