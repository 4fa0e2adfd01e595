from __future__ import annotations

import json

import msgspec
from koord_manager.noderesource.core.calculation_names import BATCH, MID
from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import CpuMemory, NodeState
from koord_manager.noderesource.core.why import why_document
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.decision import Decision
from koordctl.koordlet_documents import WhyDocument

NOW = 1_795_168_800.0


def fleet() -> Fleet:
    found = Fleet()
    node_state = NodeState(capacity=CpuMemory(10_000, 1 << 40), reserved=CpuMemory(1000, 0))
    found.node("n", node_state, ColocationStrategy(enable=True), NOW)
    found.calculate(NOW)
    idle = {"resources": {"cpu": "0", "memory": "0"}}
    status = {"updateTime": "2026-11-20T10:00:00Z", "nodeMetric": {"systemUsage": idle}}
    found.metric("n", json.dumps(status).encode())
    found.calculate(NOW + 10)
    found.calculate(NOW + 20)
    return found


def read(document: object) -> WhyDocument:
    return msgspec.json.decode(json.dumps(document), type=WhyDocument)


def test_what_stands_and_since_when_and_what_was_before() -> None:
    others = {"CPUNormalization": (Decision("CPU normalization is off: ratio 1"),)}
    why = read(why_document(fleet(), "n", NOW + 30, others))
    assert (why.node, why.decides) == ("n", True)
    assert [(one.strategy, one.aspect) for one in why.decisions] == [
        (BATCH, "batch-cpu"),
        (BATCH, "batch-memory"),
        (MID, "mid-cpu"),
        (MID, "mid-memory"),
        ("CPUNormalization", ""),
    ]
    cpu = why.decisions[0]
    assert (cpu.since, cpu.said_at) == (NOW + 10, NOW + 30)
    shown = [one.shown for one in cpu.given]
    assert (shown[:4], shown[-2:]) == (
        ["10 cores", "10 cores", "60 %", "4 cores"],
        ["5 cores", "defaults"],
    )
    history = [one for one in why.history if one.aspect == "batch-cpu"]
    assert [(one.at, one.until) for one in history] == [(NOW + 10, None), (NOW, NOW + 10)]
    assert history[1].outcome == "no batch-cpu: there is no NodeMetric of this node"
    assert [one.given[0].shown for one in history] == ["5 cores", "unknown"]


def test_a_node_that_is_not_known() -> None:
    why = read(why_document(fleet(), "other", NOW, {}))
    assert not why.decides
    assert why.reason == "the manager knows no node other"
