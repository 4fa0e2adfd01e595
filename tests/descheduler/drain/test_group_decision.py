"""Nodes of a group are planned one by one, and confirmed as far as its partition says."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.drain.drain_group import (
    DrainGroup,
    GroupDrain,
    GroupPhase,
    drain_document,
    group_drains,
    read_group,
)
from koord_descheduler.drain.free_nodes import free_percentage, most_free_first
from koord_descheduler.drain.group_decision import (
    GroupDecision,
    GroupView,
    PlanNode,
    SetConfirm,
    decide_group,
    group_status,
)
from koord_descheduler.drain.phases import DrainPhase

from tests.descheduler.clusters import TestCluster, node, pod

SELECTOR = {"matchLabels": {"pool": "old"}}


def group(phase: str = "", **spec: Any) -> DrainGroup:
    meta = {"name": "g", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"nodeSelector": SELECTOR, **spec}
    return read_group({"metadata": meta, "spec": spec, "status": {"phase": phase}})


def drain(node: str, phase: str, confirm: str = "WaitForConfirm", **more: Any) -> GroupDrain:
    return GroupDrain(f"g-{node}", node, DrainPhase(phase), confirm, "why", **more)


def decide(
    given: DrainGroup, *drains: GroupDrain, nodes: str = "", free: float = 50.0, active: str = ""
) -> GroupDecision:
    return decide_group(GroupView(given, drains, list(nodes), free, active))


def test_one_node_is_planned_after_the_other() -> None:
    assert decide(group(), nodes="ab").acts == (PlanNode("a"),)
    waits = decide(group(), drain("a", "Planning"), nodes="b")
    assert (waits.phase, waits.acts) == (GroupPhase.PLANNING, ())
    for phase in ("Waiting", "Blocked", "Failed"):
        assert decide(group(), drain("a", phase), nodes="b").acts == (PlanNode("b"),)
    assert decide(group(), drain("a", "Waiting")).phase is GroupPhase.WAITING
    assert decide(group(), drain("a", "Pending")).phase is GroupPhase.PLANNING


@pytest.mark.parametrize(
    ("partition", "confirmed"), [(None, []), (0, []), (1, ["g-b"]), (5, ["g-b", "g-d"])]
)
def test_the_partition_confirms_and_an_absent_one_confirms_none(
    partition: int | None, confirmed: list[str]
) -> None:
    policy = {} if partition is None else {"executionPolicy": {"partition": partition}}
    drains = [drain(*each) for each in zip("abcd", ["Blocked", "Waiting", "Planning", "Waiting"],
                                           strict=True)]  # fmt: skip
    assert [act.drain for act in decide(group(**policy), *drains).acts
            if isinstance(act, SetConfirm)] == confirmed  # fmt: skip


def test_those_that_are_confirmed_count_for_the_partition() -> None:
    given = group(executionPolicy={"partition": 1})
    found = decide(given, drain("a", "Drained", "Confirmed"), drain("b", "Waiting"))
    assert (found.phase, found.acts) == (GroupPhase.WAITING, ())


def test_a_paused_group_plans_and_confirms_nothing() -> None:
    given = group(executionPolicy={"partition": 9, "paused": True})
    found = decide(given, drain("a", "Waiting"), nodes="b")
    assert (found.message, found.acts) == ("paused", ())


def test_limits_end_a_group_before_all_nodes_are_drained() -> None:
    given = group(terminationPolicy={"maxNodeCount": 1}, executionPolicy={"partition": 1})
    running = decide(given, drain("a", "Running", "Confirmed"), nodes="b")
    assert (running.phase, running.acts) == (GroupPhase.RUNNING, ())
    assert running.message == "maxNodeCount is 1"
    done = decide(given, drain("a", "Drained", "Confirmed"), nodes="b")
    assert (done.phase, done.message) == (GroupPhase.SUCCEEDED, "1 of 1 nodes are drained")
    given = group(terminationPolicy={"percentageOfResourceReserved": 30})
    assert decide(given, nodes="a", free=30.0).acts == (PlanNode("a"),)
    kept = decide(given, drain("b", "Waiting"), nodes="a", free=29.0)
    assert kept.acts == ()
    assert kept.message == (
        "percentageOfResourceReserved is 30: "
        "with one more node drained 29 % of the others would be free"
    )


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ("Drained Drained", "Succeeded"),
        ("Drained Failed", "Failed"),
        ("Drained Aborted", "Failed"),
        ("Drained Blocked", "Running"),
        ("Failed Running", "Running"),
    ],
)
def test_it_has_not_succeeded_while_nodes_are_blocked_or_failed(phases: str, expected: str) -> None:
    drains = [drain(name, each, "Confirmed") for name, each in zip("ab", phases.split(),
                                                                   strict=True)]  # fmt: skip
    found = decide(group(), *drains)
    assert found.phase == expected
    if "Blocked" in phases:
        assert found.message == "all its nodes are planned; node b is blocked: why"


def test_an_abort_undoes_all_and_an_end_is_an_end() -> None:
    drains = drain("a", "Drained", "Confirmed"), drain("b", "Aborted", "Aborted")
    found = decide(group("Running", confirmState="Aborted"), *drains, nodes="c")
    assert found.phase is GroupPhase.ABORTED
    assert found.acts == (SetConfirm("g-a", "Aborted"),)
    under_way = drain("a", "Aborted", "Aborted", has_ended=False)
    assert decide(group("Aborted"), under_way).message == "1 nodes are being undone"
    assert decide(group("Aborted"), drains[1], nodes="c").message == "all is undone"
    assert decide(group("Succeeded"), drains[0], nodes="c").acts == ()


def test_one_group_is_under_way_at_a_time() -> None:
    found = decide(group(), nodes="a", active="other")
    assert (found.phase, found.message) == (
        GroupPhase.PENDING,
        "DrainNodeGroup other is under way",
    )
    assert found.acts == ()


def test_a_dry_run_ends_once_all_is_planned() -> None:
    found = decide(group(dryRun=True), drain("a", "Waiting", is_dry_run=True))
    assert found.phase is GroupPhase.SUCCEEDED
    assert found.message == "0 of 1 nodes are drained"


def test_drains_have_the_wishes_of_their_group_and_are_not_confirmed() -> None:
    given = group(reason="r", podRules=[{"behavior": "Skip"}], executionPolicy={"partition": 3})
    made = drain_document(given, "n1")
    assert made["metadata"]["name"] == "g-n1"
    assert made["spec"] == {"nodeName": "n1", "reason": "r", "podRules": [{"behavior": "Skip"}]}
    assert [each.node for each in group_drains("u", [made])] == ["n1"]
    assert group_drains("other", [made]) == []
    long_name = drain_document(given, "n" * 253)["metadata"]["name"]
    assert len(long_name) <= 253
    assert long_name != drain_document(given, "n" * 254)["metadata"]["name"]


def test_the_status_lists_fifty_nodes_and_counts_all() -> None:
    drains = [drain(f"n{number}", "Drained", "Confirmed") for number in range(60)]
    view = GroupView(group(), drains, [], 0.0)
    found = group_status(view, decide_group(view), 70, None)
    assert (len(found["nodes"]), found["unlistedNodes"]) == (50, 10)
    assert found["counts"] == {
        "selected": 70, "planned": 60, "confirmed": 60, "blocked": 0, "drained": 60, "failed": 0,
    }  # fmt: skip


def test_the_node_with_most_free_comes_first_and_others_keep_their_reserve() -> None:
    cluster = TestCluster()
    cluster.put(node("a", cpu="4"), node("b", cpu="4"), node("c", cpu="8"))
    cluster.put(pod("p", "a", cpu="3"), pod("q", "b", cpu="1"), pod("r", "c", cpu="3"))
    assert most_free_first(cluster.cluster, ["a", "b", "c"]) == ["b", "c", "a"]
    assert free_percentage(cluster.cluster, {"b"}) == pytest.approx(100 * 5 / 12)
    cluster.put(node("c", cpu="8", unschedulable=True))
    assert free_percentage(cluster.cluster, {"b"}) == 0.0, "CPU of the cordoned node counts not"
    assert free_percentage(cluster.cluster, {"a", "b", "c"}) == 0.0


def test_a_bad_spec_is_refused_in_a_line() -> None:
    with pytest.raises(ValueError, match=r"spec: .*node_selector|nodeSelector"):
        read_group({"metadata": {"name": "g"}, "spec": {}})
    with pytest.raises(ValueError, match='"soon" is not a valid duration'):
        group(deadline={"duration": "soon"})
