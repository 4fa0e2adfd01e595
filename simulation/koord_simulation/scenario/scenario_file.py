"""A scenario as a file of YAML has it.

For instance::

    name: day and night
    seconds: 4h
    node: {cpus: 32, memory: 128Gi}
    pods:
      - name: web
        count: 8
        qos: LS
        cpu: [{sine: {mean: 1.5, swing: 1, period: 4h}}, {noise: {size: 0.1}}]
        memory: 2Gi
        requests: {cpu: 2, memory: 4Gi}
    slo: {resourceUsedThresholdWithBE: {enable: true}}
    strategies: [cpu_suppress]
    faults:
      - {kind: missing, metrics: node_cpu_usage, start: 10m, end: 12m}

Fields are those of ``Scenario``, ``SimulatedMachine``, ``Workload``, ``Fault``; durations, sizes
and amounts are spelled as Kubernetes does. ``slo`` is a NodeSLO's specification. ``count`` makes
several of a pod, "-1" and so on behind the name. ``trace`` is a file of recorded use
(``koord_prediction.trace``) whose pods run beside the others. No IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from koord_model import node_slo_document
from koord_model.fields import shown
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_prediction.trace import Trace
from koordlet.qos_manager.core.strategy import StrategyMode
from koordlet.qos_manager.eviction.policy.account import EvictionLimits

from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import SimulatedMachine
from koord_simulation.node_model.workload import Workload, of_trace
from koord_simulation.scenario.fields import (
    Read,
    amounts,
    cores,
    count,
    flag,
    listed,
    mapping,
    memory,
    number,
    read,
    seconds,
    size,
    text,
    texts,
)
from koord_simulation.scenario.scenario import Scenario

_MOST_PODS = 1000


class ScenarioFile(NamedTuple):
    """A scenario, and a line for each ignored field of its NodeSLOs."""

    scenario: Scenario
    ignored: tuple[str, ...]


def parse(document: object, read_trace: Callable[[str], Trace]) -> ScenarioFile:
    """The scenario that a file's document describes; ``read_trace`` reads one by its path.

    Raises:
        ValueError: something in it is none; one line that names the place.
    """
    ignored: list[str] = []
    given = read(document, _scenario(ignored))
    pods: tuple[Workload, ...] = given.pop("pods", ())  # type: ignore[assignment]
    machine: SimulatedMachine = given.pop("node", SimulatedMachine())  # type: ignore[assignment]
    if "trace" in given:
        asked: dict[str, Any] = given.pop("trace")  # type: ignore[assignment]
        traced, cpu, used = of_trace(read_trace(asked["file"]), asked.get("speed", 1.0))
        pods, machine = (*pods, *traced), replace(machine, system_cpu=cpu, system_memory=used)
    made: dict[str, Any] = {**given, "pods": pods, "machine": machine}
    return ScenarioFile(Scenario(**made), tuple(ignored))


def _scenario(ignored: list[str]) -> dict[str, Read]:
    def slo(given: object) -> NodeSLO:
        found, lines = node_slo_document.parse(mapping(given))
        ignored.extend(lines)
        return found

    def changes(given: object) -> dict[float, NodeSLO]:
        return {seconds(_number(at)): slo(document) for at, document in mapping(given).items()}

    return {
        "name": text,
        "seconds": lambda given: round(seconds(given)),
        "warm_up": lambda given: round(seconds(given)),
        "seed": count,
        "node": _machine,
        "pods": _pods,
        "trace": _trace,
        "slo": slo,
        "slo_changes": changes,
        "strategies": _strategies,
        "faults": _faults,
        "comes_back": seconds,
        "limits": lambda given: EvictionLimits(**_values(given, _LIMITS)),
    }


_LIMITS: dict[str, Read] = {"per_minute": count, "cpu_cool": seconds, "cool": seconds}
_MACHINE: dict[str, Read] = {
    "cpus": count,
    "threads_per_core": count,
    "numa_nodes": count,
    "memory": size,
    "swap": size,
    "llc_bytes": size,
    "llc_ways": count,
    "bandwidth": size,
    "cgroup_version": count,
    "vendor_kernel": flag,
    "resctrl": flag,
    "tells_cold": flag,
    "idle_classes": flag,
    "system_cpu": cores,
    "system_memory": memory,
    "allocatable": amounts,
    "reserved_cpu": number,
}
_FAULT: dict[str, Read] = {
    "kind": lambda given: _word(FaultKind, given),
    "start": seconds,
    "end": seconds,
    "metrics": text,
    "seconds": number,
}
_POD: dict[str, Read] = {
    "name": text,
    "count": count,
    "qos": lambda given: _word(QoSClass, given),
    "cpu": cores,
    "memory": memory,
    "requests": amounts,
    "limits": amounts,
    "priority": count,
    "namespace": text,
    "labels": texts,
    "annotations": texts,
    "cpus": text,
    "containers": count,
    "start": seconds,
    "end": seconds,
    "service_ms": number,
    "burstiness": number,
    "page_cache": size,
    "cold": number,
    "leak": size,
    "oom_score_adj": count,
    "llc_bytes": size,
    "llc_sensitivity": number,
    "bandwidth": size,
}


def _machine(given: object) -> SimulatedMachine:
    return SimulatedMachine(**_values(given, _MACHINE))


def _pods(given: object) -> tuple[Workload, ...]:
    found: list[Workload] = []
    for place, item in enumerate(listed(given)):
        fields = _values(item, _POD, f"[{place}]: ")
        many = fields.pop("count", None)
        if "name" not in fields:
            raise ValueError(f"[{place}] has no name")
        if many is None:
            found.append(Workload(**fields))
            continue
        if not 0 <= many <= _MOST_PODS:
            raise ValueError(f"[{place}]: count is {many}; expected 0 to {_MOST_PODS}")
        name = fields.pop("name")
        found += [Workload(f"{name}-{number + 1}", **fields) for number in range(many)]
    return tuple(found)


def _faults(given: object) -> tuple[Fault, ...]:
    found = []
    for place, item in enumerate(listed(given)):
        fields = _values(item, _FAULT, f"[{place}]: ")
        if not {"kind", "start"} <= fields.keys():
            raise ValueError(f"[{place}] wants kind and start")
        found.append(Fault(**fields))
    return tuple(found)


def _strategies(given: object) -> dict[str, StrategyMode]:
    if isinstance(given, list):
        return {text(name): StrategyMode.ON for name in given}
    found = {}
    for name, word in mapping(given).items():
        try:
            found[name] = StrategyMode.of(word)
        except ValueError:
            raise ValueError(f"{name} is {shown(word)}; expected off, shadow or on") from None
    return found


def _trace(given: object) -> dict[str, object]:
    fields = {"file": given} if isinstance(given, str) else given
    found = read(fields, {"file": text, "speed": number})
    if "file" not in found:
        raise ValueError("there is no file")
    return found


def _values(given: object, table: Mapping[str, Read], where: str = "") -> dict[str, Any]:
    try:
        return dict(read(given, table))
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None


def _word(words: type[FaultKind] | type[QoSClass], given: object) -> FaultKind | QoSClass:
    try:
        return words(text(given))
    except ValueError:
        known = ", ".join(word for word in words if word)
        raise ValueError(f"{shown(given)}; expected {known}") from None


def _number(given: str) -> object:
    return float(given) if given.replace(".", "", 1).isdigit() else given
