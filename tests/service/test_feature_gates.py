"""What is said of gates that have no effect."""

from __future__ import annotations

from typing import Any

import pytest
from koord_hooks.runner import available_plugins
from koord_manager.program import gates as manager
from koord_scheduler.program import gates as scheduler
from koord_service.feature_gates import report_unknown
from koord_service.logs import get_log
from koordlet.agent import feature_gates as koordlet

KOORDLET = (*koordlet.DEFAULTS, *koordlet.OF_PLUGINS)


@pytest.mark.parametrize(
    ("known", "gate", "hint"),
    [
        (KOORDLET, "BECPUSupress=true", "did you mean BECPUSuppress?"),
        (KOORDLET, "psicollector=true", "did you mean PSICollector"),
        (KOORDLET, "GroupIdentiy=false", "did you mean GroupIdentity?"),
        (KOORDLET, "Nonsense=true", "the gates are Accelerators, AllAlpha, AllBeta,"),
        (KOORDLET, f"{'x' * 10_000}=true", "the gates are Accelerators"),
        (manager.DEFAULTS, "MultiQuotaTrees=maybe", "did you mean MultiQuotaTree?"),
        (scheduler.DEFAULTS, "DevicePluginAdaptation=true", "did you mean DevicePluginAdaption?"),
    ],
)
def test_an_unknown_gate_is_an_error_with_its_value_and_the_way_out(known, gate, hint, caplog):
    report_unknown(get_log("test"), [gate], known)
    [line] = caplog.records
    fields: Any = line.fields
    assert (line.levelname, line.message) == ("ERROR", "unknown feature gate")
    assert (fields["gate"], fields["value"]) == tuple(gate.split("="))
    assert fields["reason"].startswith(f"it is ignored; {hint}")


@pytest.mark.parametrize("program", [koordlet, manager, scheduler])
def test_a_gate_of_koordinators_that_changes_nothing_here_is_no_error(program, caplog):
    caplog.set_level("INFO")
    assert program.UNUSED.isdisjoint(program.DEFAULTS)
    gates = [f"{name}=true" for name in sorted(program.UNUSED)]
    report_unknown(get_log("test"), gates, program.DEFAULTS, program.UNUSED)
    assert {(line.levelname, line.message) for line in caplog.records} == {
        ("INFO", "feature gate has no effect here")
    }
    assert [line.fields["gate"] for line in caplog.records] == gates  # type: ignore[attr-defined]


def test_gates_of_plugins_are_those_there_are() -> None:
    assert {name.lower() for name in koordlet.OF_PLUGINS} == {
        *available_plugins(),
        "allalpha",
        "allbeta",
    }
