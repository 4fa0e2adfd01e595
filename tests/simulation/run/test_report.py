from __future__ import annotations

import json

import numpy as np
import pytest
from koord_host.planning.desired_values import DesiredValue, Target
from koord_simulation.node_model.machine import GIB
from koord_simulation.run.record import EvictionLine
from koord_simulation.run.report import direction_changes, lines, report
from koord_simulation.run.simulation import simulate
from koordlet.qos_manager.core.strategy import Plan

from tests.simulation.stories import Recorder, job, on, story, web


@pytest.mark.parametrize(
    ("curve", "turns"),
    [([], 0), ([1], 0), ([1, 2, 3], 0), ([3, 3, 1], 0), ([1, 2, 2, 1, 3], 2), ([1, 2] * 4, 6)],
)
def test_a_curve_turns_where_it_goes_back(curve: list[float], turns: int) -> None:
    assert direction_changes(np.array(curve, dtype=float)) == turns


def test_a_report_says_what_best_effort_pods_got() -> None:
    two = Plan(desired=(DesiredValue(Target("kubepods/besteffort", "cpuset.cpus"), "0-1"),))
    run = simulate(
        on(story(web(cpu=1), job(cpu=4), seconds=3600, warm_up=60)), [Recorder(two).strategy]
    )
    found = report(run)
    assert found.seconds == 3540
    # Of two CPUs, others use their part.
    assert found.be_cpu_hours == pytest.approx(1.6 * 3540 / 3600, rel=0.02)
    assert found.be_kept_percent == pytest.approx(40, rel=0.02)
    assert found.be_allowed_least == found.be_allowed_mean == 2
    assert found.direction_changes == 0
    assert [one.pod for one in found.pods] == ["default/web"]
    assert found.pods[0].cores == pytest.approx(1.1, abs=0.1)


def test_a_node_without_pods_has_a_report_too() -> None:
    found = report(simulate(story(seconds=10, warm_up=60)))
    assert (found.seconds, found.be_kept_percent, found.pods) == (1, 100, ())
    assert len(list(lines(found))) == 3


def test_people_and_programs_get_the_same() -> None:
    bad = Plan(desired=tuple(DesiredValue(Target(f"g{n}", "cpu.idle"), 1) for n in range(30)))
    eaten = {"leak": 2 * GIB, "limits": {"kubernetes.io/batch-memory": 4 * GIB}}
    run = simulate(
        on(story(web(), job(**eaten), job("other", leak=9 * GIB))), [Recorder(bad).strategy]
    )
    found = report(run)
    document = json.loads(json.dumps(found.document()))
    assert document["name"] == "story"
    assert document["kills"][0]["pod"] in ("default/job", "default/other")
    text = "\n".join(lines(found))
    assert "refused by the kernel: 30 × cpu.idle: there is no such group" in text
    assert "default/web  LS" in text
    assert "(limit of" in text
    assert "(node)" in text


def test_long_lists_are_cut_and_the_reason_of_an_eviction_is_said_once() -> None:
    run = simulate(story(job(leak=9 * GIB), seconds=600))
    assert len(run.kills) > 20
    run.evictions += [EvictionLine(at, "default/job", "one", "rule", "why") for at in (5, 6)]
    found = list(lines(report(run)))
    assert any("more" in line for line in found)
    evictions = [line for line in found if "by one" in line]
    assert [line.endswith(": why") for line in evictions] == [True, False]
    with pytest.raises(KeyError):
        run.column("nobody")
