from __future__ import annotations

import io

import pytest
import yaml
from koord_model.qos import QoSClass
from koord_prediction.trace import Trace
from koord_prediction.trace import parse as parse_trace
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB
from koord_simulation.scenario.scenario_file import ScenarioFile, parse
from koordlet.qos_manager.core.strategy import StrategyMode

from tests.simulation.node_model.test_workload import TRACE


def trace(path: str) -> Trace:
    assert path == "day.csv"
    return parse_trace(io.StringIO(TRACE))


def read(text: str) -> ScenarioFile:
    return parse(yaml.safe_load(text), trace)


def test_a_whole_scenario() -> None:
    scenario, ignored = read("""
name: all of it
seconds: 10m
warm_up: 30
seed: 7
comes_back: 1m
limits: {per_minute: 2, cool: 10s}
node: {cpus: 8, memory: 16Gi, system_cpu: 1, allocatable: {batch-cpu: 4000}, tells_cold: true}
pods:
  - {name: web, qos: LS, cpu: 1.5, memory: 1Gi, requests: {cpu: 2}, labels: {a: b}, end: 5m}
  - {name: job, count: 2, qos: BE, cpu: 2, requests: {batch-cpu: 1000}, leak: 1Mi}
  - {name: none, count: 0}
slo: {resourceUsedThresholdWithBE: {enable: true}}
slo_changes: {5m: {resourceUsedThresholdWithBE: {enable: false}}, 400: {}}
strategies: {one: on, two: shadow, three: off}
faults:
  - {kind: missing, metrics: "node_*", start: 1m, end: 2m}
  - {kind: restart, start: 90}
""")
    assert ignored == ()
    assert (scenario.name, scenario.seconds, scenario.seed) == ("all of it", 600, 7)
    assert (scenario.warm_up, scenario.comes_back, scenario.limits.per_minute) == (30, 60, 2)
    assert (scenario.machine.cpus, scenario.machine.memory) == (8, 16 * GIB)
    assert scenario.machine.for_pods["kubernetes.io/batch-cpu"] == 4000
    assert [pod.name for pod in scenario.pods] == ["web", "job-1", "job-2"]
    assert (scenario.pods[0].qos, scenario.pods[0].end) == (QoSClass.LS, 300)
    assert scenario.slo.threshold.enable
    assert sorted(scenario.slo_changes) == [300, 400]
    assert scenario.strategies == {
        "one": StrategyMode.ON,
        "two": StrategyMode.SHADOW,
        "three": StrategyMode.OFF,
    }
    assert scenario.faults == (
        Fault(FaultKind.MISSING, 60, 120, "node_*"),
        Fault(FaultKind.RESTART, 90),
    )


@pytest.mark.parametrize("spelt", ["day.csv", "{file: day.csv, speed: 2}"])
def test_pods_of_a_trace_run_beside_the_others(spelt: str) -> None:
    scenario = read(f"trace: {spelt}\npods: [{{name: own}}]").scenario
    assert [pod.name for pod in scenario.pods] == ["own", "web", "job"]
    assert scenario.pods[1].end == (180 if spelt == "day.csv" else 90)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "a list; expected names with values"),
        ("colour: red", '"colour" is not a field; there are name'),
        ("seconds: soon", r"seconds: .*not a valid duration"),
        ("seconds: 0", "expected 1 at least"),
        ("pods: 5", "pods: 5; expected a list"),
        ("pods: [{qos: LS}]", r"pods: \[0\] has no name"),
        ("pods: [{name: a, count: 5000}]", "expected 0 to 1000"),
        ("pods: [{name: a, qos: XL}]", r'pods: \[0\]: qos: "XL"; expected LSE, LSR'),
        ("pods: [{name: a, cpu: {sine: 3}}]", r"\[0\]: cpu: sine: 3; expected"),
        ("pods: [{name: a}, {name: a}]", "two pods are called"),
        ("node: {cpus: 3}", "expected a multiple"),
        ("faults: [{kind: missing}]", r"faults: \[0\] wants kind and start"),
        ("faults: [{kind: rain, start: 0}]", "expected missing, stuck"),
        ("strategies: {a: maybe}", 'a is "maybe"; expected off, shadow or on'),
        ("strategies: {a: [1]}", "expected off, shadow or on"),
        ("trace: {speed: 3}", "there is no file"),
        ("limits: {per_hour: 3}", 'limits: "per_hour" is not a field'),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(text)
