"""What the API says between a question to extenders and its answer counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.extenders.calls import CallFailure, FilterAnswer, PreemptCall
from koord_scheduler.extenders.extender import Extender
from koord_scheduler.extenders.refusal import ExtenderRefusal, NodeFailure
from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderFailure,
    ExtenderQuestion,
    Placement,
    PreemptionPlan,
    Refusal,
)
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.pod_reader import PodReader

[DEFAULT] = (one.profile for one in default_scheduler_config().profiles)
FILTER = Extender("http://e", filter_verb="filter", has_node_cache=True)
BOTH = Extender("http://e", "filter", "prioritize", has_node_cache=True)
PREEMPT = Extender("http://e", preempt_verb="preempt", has_node_cache=True)
GPU = "example.com/gpu"


class Cluster:
    """Nodes with a core each, and pods that want one."""

    def __init__(self, *nodes: str, extenders: Sequence[Extender] = (FILTER,)) -> None:
        self.scheduler = Scheduler([DEFAULT], extenders=extenders)
        self.reader = PodReader(self.scheduler.nodes)
        for name in nodes:
            amounts = {"cpu": "1", "memory": "8Gi", "pods": "9", GPU: "9"}
            document = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
            self.scheduler.nodes.set(read_node(json.dumps(document).encode()))

    def pod(self, name: str, node: str = "", priority: int = 10, **more: Any) -> None:
        requests = {"cpu": "1", **more.pop("requests", {})}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        spec = {"nodeName": node, "priority": priority, "containers": containers}
        metadata = {"name": name, "namespace": "d", "uid": name}
        document = {"metadata": metadata, "spec": spec, "status": more}
        self.scheduler.set_pod(self.reader.read(json.dumps(document).encode()), 0.0)

    def ask(self, now: float = 0.0) -> ExtenderQuestion:
        question = self.scheduler.decide(now)
        assert isinstance(question, ExtenderQuestion)
        return question

    def answer(
        self, question: ExtenderQuestion, *answers: Any, now: float = 0.0
    ) -> Decision | ExtenderQuestion | None:
        return self.scheduler.answer(question, answers, now)


def passing(*names: str) -> FilterAnswer:
    return FilterAnswer(names, {})


@pytest.mark.parametrize("how", ["gone", "filled"])
def test_a_node_that_was_lost_meanwhile_is_not_taken(how: str) -> None:
    cluster = Cluster("n1", "n2")
    cluster.pod("web")
    question = cluster.ask()
    if how == "gone":
        cluster.scheduler.nodes.remove("n1")
    else:
        cluster.pod("other", "n1")
    assert cluster.answer(question, passing("n1")) is None
    again = cluster.ask()
    assert [one.nodes for one in again.calls] == [("n2",)]  # type: ignore[attr-defined]
    placed = cluster.answer(again, passing("n2"))
    assert isinstance(placed, Placement)
    assert placed.node == "n2"


def test_the_best_is_taken_of_what_is_left_of_the_nodes_that_passed() -> None:
    cluster = Cluster("n1", "n2", "n3", extenders=[BOTH])
    cluster.pod("web")
    scored = cluster.answer(cluster.ask(), passing("n1", "n2"))
    assert isinstance(scored, ExtenderQuestion)
    cluster.scheduler.nodes.remove("n2")
    placed = cluster.answer(scored, {"n2": 100})
    assert isinstance(placed, Placement)
    assert placed.node == "n1"


@pytest.mark.parametrize("how", ["gone", "changed", "placed"])
def test_an_answer_about_a_pod_that_does_not_wait_so_any_more_is_dropped(how: str) -> None:
    cluster = Cluster("n1")
    cluster.pod("web")
    question = cluster.ask()
    if how == "gone":
        cluster.scheduler.remove_pod("d/web")
    else:
        cluster.pod("web", "n1" if how == "placed" else "", requests={"memory": "1Gi"})
    assert cluster.answer(question, passing("n1")) is None
    assert not cluster.scheduler.assumed


def test_only_pods_that_an_extender_is_interested_in_wait_for_it() -> None:
    managed = Extender("http://e", "filter", managed_resources=frozenset({GPU}))
    cluster = Cluster("n1", extenders=[managed])
    cluster.pod("plain")
    assert isinstance(cluster.scheduler.decide(0.0), Placement)
    cluster.pod("full", requests={GPU: "1"})
    assert isinstance(cluster.scheduler.decide(0.0), Refusal), "plugins alone say so"
    cluster.scheduler.remove_pod("d/plain")
    cluster.pod("none", requests={GPU: "0"})
    cluster.ask()


@pytest.mark.parametrize("failed", [False, True])
def test_what_extenders_say_concerns_one_pod_which_is_tried_again_later(failed: bool) -> None:
    cluster = Cluster("n1")
    cluster.pod("web")
    cluster.pod("same")
    answer = CallFailure("down") if failed else FilterAnswer((), {"n1": NodeFailure("no", True)})
    decision = cluster.answer(cluster.ask(), answer, now=5.0)
    assert isinstance(decision, ExtenderFailure if failed else Refusal)
    assert cluster.ask(5.0).pod.key == "d/same"
    cluster.scheduler.remove_pod("d/same")
    cluster.scheduler.queue.tick(5.9)
    cluster.scheduler.wake(5.9)
    assert cluster.scheduler.decide(5.9) is None
    cluster.scheduler.queue.tick(6.0)
    assert cluster.ask(6.0).pod.key == "d/web"


def test_the_node_that_a_pod_waits_for_is_asked_about_first() -> None:
    cluster = Cluster("n1", "n2", "n3")
    cluster.pod("web", nominatedNodeName="n2")
    question = cluster.ask()
    assert [one.nodes for one in question.calls] == [("n2",)]  # type: ignore[attr-defined]
    everywhere = cluster.answer(question, CallFailure("down"))
    assert isinstance(everywhere, ExtenderQuestion)
    assert len(everywhere.calls[0].nodes) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_there", [True, False])
def test_victims_that_went_meanwhile_are_looked_for_anew(is_there: bool) -> None:
    cluster = Cluster("n1", "n2", extenders=[PREEMPT])
    cluster.pod("batch", "n1", priority=0)
    cluster.pod("other", "n2", priority=1)
    cluster.pod("web")
    question = cluster.ask()
    [call] = question.calls
    assert isinstance(call, PreemptCall)
    [chosen] = [one for one in call.candidates if one.node == "n2"]
    if not is_there:
        cluster.scheduler.remove_pod("d/other")
    plan = cluster.answer(question, (chosen,))
    if is_there:
        assert isinstance(plan, PreemptionPlan)
        assert plan.preemption == chosen
    else:
        assert plan is None
        assert isinstance(cluster.scheduler.decide(0.0), Placement)


def test_a_pod_that_extenders_reject_elsewhere_waits_for_its_victims_without_asking() -> None:
    cluster = Cluster("n1", "n2")
    cluster.pod("batch", "n2", priority=0)
    cluster.pod("web")
    plan = cluster.answer(cluster.ask(), FilterAnswer((), {"n1": NodeFailure("no", True)}))
    assert isinstance(plan, PreemptionPlan)
    assert plan.preemption.node == "n2"
    cluster.scheduler.wake(0.5)
    assert cluster.scheduler.decide(0.5) is None
    cluster.scheduler.remove_pod("d/batch")
    cluster.scheduler.queue.tick(1.0)
    placed = cluster.answer(cluster.ask(1.0), passing("n2"))
    assert isinstance(placed, Placement)
    assert placed.node == "n2"


def test_what_extenders_said_is_forgotten_once_plugins_reject_the_pod() -> None:
    cluster = Cluster("n1")
    cluster.pod("web")
    failed = cluster.answer(cluster.ask(), CallFailure("down"))
    assert isinstance(failed, ExtenderFailure)
    assert failed.pod.extender_refusal == ExtenderRefusal(failure="down")
    cluster.pod("other", "n1")
    cluster.scheduler.queue.tick(1.0)
    refused = cluster.scheduler.decide(1.0)
    assert isinstance(refused, Refusal)
    assert refused.pod.extender_refusal is None
