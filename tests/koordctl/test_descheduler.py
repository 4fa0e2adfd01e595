"""``koordctl descheduler``: the next round, and why a pod was moved or stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_descheduler.planner.move import MoveRefusal, RoundPlan
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.plan_document import job_document, plan_document
from koord_service.status import json_page

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.descheduler.framework.test_round import Emptying
from tests.descheduler.migration.jobs import job
from tests.koordctl.conftest import Failing, Run, Serve

NO_NODE = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."


@pytest.fixture
def plan() -> RoundPlan:
    cluster = TestCluster()
    cluster.put(node("a", unschedulable=True), node("b", cpu="4"))
    cluster.put(*(pod(f"p{number}", "a", cpu="3") for number in range(2)))
    return cluster.round(Emptying())


def served(serve: Serve, **pages: Any) -> str:
    return str(serve(**{f"v1/{name}": json_page(page) for name, page in pages.items()}).address)


def test_a_plan_shows_moves_and_pods_that_stay(run: Run, serve: Serve, plan: RoundPlan) -> None:
    address = served(serve, plan=plan_document(plan))
    assert run("descheduler", "plan", "--address", address).splitlines() == [
        "1 move, 1 pod that would move and stay.",
        "",
        "POD         FROM  TO  PLUGIN    REASON",
        "default/p0  a     b   Emptying  emptied",
        "",
        "POD         NODE  PLUGIN    RULE  WHY",
        f"default/p1  a     Emptying  Fit   {NO_NODE}",
    ]
    assert json.loads(run("descheduler", "plan", "--address", address, "--json"))["moves"]


def test_of_many_pods_that_stay_some_are_shown(run: Run, serve: Serve, plan: RoundPlan) -> None:
    refusals = tuple(
        plan.refusals[0]._replace(pod=plan.refusals[0].pod._replace(key=f"default/x{number}"))
        for number in range(30)
    )
    address = served(serve, plan=plan_document(plan._replace(refusals=refusals)))
    lines = run("descheduler", "plan", "--address", address).splitlines()
    assert lines[-1] == "… and 10 more (by rule: Fit 30; --all shows more)"
    assert "default/x29" in run("descheduler", "plan", "--all", "--address", address)


def test_why_a_pod_was_moved(run: Run, serve: Serve, plan: RoundPlan) -> None:
    history = RoundHistory()
    history.planned(plan, 0.1)
    history.executed(plan.moves[0], "refused", "a budget forbids it", NOW)
    status = {"reason": "Forbidden", "message": "its set stays"}
    jobs = [job_document(job(phase="Failed", node="b", status=status))]
    address = served(serve, why={**history.why("default/p0"), "jobs": jobs})
    assert run("descheduler", "why", "default/p0", "--address", address).splitlines() == [
        "default/p0 is to move from a to b",
        "  Emptying: emptied",
        f"    score  {plan.moves[0].arithmetic['score']:g}",
        "",
        "default/p0 was moved at 2023-11-14T22:13:20Z from a to b",
        "  Emptying: emptied",
        f"    score  {plan.moves[0].arithmetic['score']:g}",
        "  result: refused: a budget forbids it",
        "  PodMigrationJob j to b: Failed: Forbidden: its set stays",
    ]


def test_why_a_pod_stays(run: Run, failing: Failing, serve: Serve, plan: RoundPlan) -> None:
    history = RoundHistory()
    assert history.why("default/p1")["reason"] == "no round was planned yet"
    history.planned(plan, 0.1)
    address = served(serve, why=history.why("default/p1"))
    assert run("descheduler", "why", "default/p1", "--address", address).splitlines() == [
        f"default/p1 stays on a: {NO_NODE}",
        "  Emptying wanted to move it at 2023-11-14T22:13:20Z; rule Fit",
    ]
    assert run("why", "moved", "default/p1", "--address", address).startswith("default/p1 stays")
    assert history.why("default/other")["state"] == "not considered"
    assert failing("descheduler", "why", "p1", "--address", address)[0] == 2


def test_refusals_of_a_page_are_bounded(plan: RoundPlan) -> None:
    refusal: MoveRefusal = plan.refusals[0]
    many = plan_document(plan._replace(refusals=(refusal,) * 5000))
    assert (len(many["refusals"]), many["refused"]) == (1000, {"Fit": 5000})
