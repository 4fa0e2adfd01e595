from __future__ import annotations

from koord_simulation.node_model.faults import Fault, FaultKind, Faults


def test_a_fault_holds_from_its_start_to_before_its_end_and_a_restart_happens_once() -> None:
    faults = Faults([Fault(FaultKind.NO_SLO, 2, 4), Fault(FaultKind.RESTART, 3)])
    held, starts = [], []
    for second in range(6):
        faults.turn(second)
        held.append(faults.has(FaultKind.NO_SLO))
        starts.append(faults.starts(FaultKind.RESTART, second))
    assert [n for n, one in enumerate(held) if one] == [2, 3]
    assert [n for n, one in enumerate(starts) if one] == [3]


def test_metrics_are_named_with_stars() -> None:
    faults = Faults([Fault(FaultKind.MISSING, 0, metrics="node_*")])
    faults.turn(5)
    assert faults.any_metrics
    assert faults.of_metric(FaultKind.MISSING, "node_cpu_usage")
    assert not faults.of_metric(FaultKind.MISSING, "pod_cpu_usage")
    assert not faults.of_metric(FaultKind.STUCK, "node_cpu_usage")


def test_clocks_that_are_off_add_up() -> None:
    faults = Faults([Fault(FaultKind.CLOCK, 0, seconds=60), Fault(FaultKind.CLOCK, 5, seconds=-20)])
    faults.turn(4)
    assert faults.clock == 60
    faults.turn(5)
    assert faults.clock == 40
    assert not faults.any_metrics
