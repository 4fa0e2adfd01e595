"""Extenders, against kube-scheduler's own: what they are sent, and what comes of their answers.

They are asked over HTTP, by a server of the test's own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import SchedulerConfig, read_scheduler_config
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.extenders.calls import CallFailure
from koord_scheduler.framework.decisions import (
    Decision,
    ExtenderFailure,
    ExtenderQuestion,
    Placement,
    PreemptionPlan,
    Refusal,
)
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.extender_client import ExtenderClient, tls_contexts
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay
from tests.support.clusters.extenders import URL
from tests.support.extender_server import ExtenderServer

REFUSED: Fields = {"refused": True}
SEEDS = 24
"""Attempts until each of the equal nodes was taken that kube-scheduler takes."""
NO_CLAIMS = "no new claims to deallocate, "
"""What DynamicResources adds, which is not built."""


def ours(vector: Vector) -> Fields:
    return asyncio.run(decided(vector))


async def decided(vector: Vector) -> Fields:
    server = ExtenderServer()
    async with server.serving():
        try:
            config = read_scheduler_config(vector.given["config"].replace(URL, server.url))
            tls_contexts(config.extenders)
        except (SchedulerConfigError, ValueError):
            return REFUSED
        found: Object = {"extenders": extender_fields(config, server.url)}
        found["ignored"] = list(config.profiles[0].args.node_resources_fit.ignored_resources)
        if "pod" not in vector.given:
            return leaves(found)
        server.answers = vector.given["answers"]
        found |= await attempt(vector.given, config, 0, server)
        found |= requests(server.requests)
        theirs = set(vector.recorded.get("hosts", ()))
        hosts = set(found["hosts"])
        for seed in range(1, SEEDS):
            if not hosts or theirs <= hosts:
                break
            hosts |= set((await attempt(vector.given, config, seed, server))["hosts"])
        found["hosts"] = sorted(theirs if theirs <= hosts else hosts)
        return json.loads(json.dumps(leaves(found)).replace(server.url, URL))


def extender_fields(config: SchedulerConfig, url: str) -> list[Object]:
    return [
        {
            "name": one.url.replace(url, URL),
            "ignorable": one.ignorable,
            "filters": bool(one.filter_verb),
            "prioritizes": bool(one.prioritize_verb),
            "preempts": bool(one.preempt_verb),
            "binds": bool(one.bind_verb),
        }
        for one in config.extenders
    ]


async def attempt(
    given: Object, config: SchedulerConfig, seed: int, server: ExtenderServer
) -> Object:
    """What becomes of the pod; another ``seed`` lets it go to another one of equal nodes."""
    scheduler = Scheduler(
        [one.profile for one in config.profiles],
        nodes=ClusterState(seed=seed),
        extenders=config.extenders,
    )
    documents = ApiDocuments(config.extenders)
    read_a_node = documents.reading_nodes(read_node)
    read_a_pod = documents.reading_pods(PodReader(scheduler.nodes).read)
    for one in given["nodes"]:
        scheduler.nodes.set(read_a_node(json.dumps(one).encode()))
    for one in [*given["pods"], given["pod"]]:
        scheduler.set_pod(read_a_pod(json.dumps(one).encode()), 0.0)
    async with ExtenderClient(
        config.extenders, tls_contexts(config.extenders), documents
    ) as client:
        decision = scheduler.decide(0.0)
        while isinstance(decision, ExtenderQuestion):
            decision = scheduler.answer(decision, await client.ask(decision.calls), 0.0)
        assert decision is not None
        found = outcome(scheduler, decision)
        if isinstance(decision, Placement) and (call := client.binder(decision)):
            [answer] = await client.ask([call])
            assert server.requests[-1]["body"].pop("Node") == decision.node
            is_bound = not isinstance(answer, CallFailure)
            found["bound"] = not is_bound and call.extender.ignorable
            found["notbound"] = not is_bound and not call.extender.ignorable
        return found


def outcome(scheduler: Scheduler, decision: Decision) -> Object:
    match decision:
        case Placement():
            return {"hosts": [decision.node], "bound": True, "notbound": False}
        case ExtenderFailure():
            return {"hosts": [], "error": reason(decision.failure)}
        case PreemptionPlan():
            victims = sorted(one.key.partition("/")[2] for one in decision.preemption.victims)
            found = {
                "hosts": [],
                "nominated": decision.preemption.node,
                "deleted": victims,
                "postfilter": "",
            }
            return found | rejections(scheduler, decision)
        case Refusal():
            found = {"hosts": [], "postfilter": reason(decision.preemption)}
            return found | rejections(scheduler, decision)


def rejections(scheduler: Scheduler, decision: Refusal | PreemptionPlan) -> Object:
    scores = scheduler.scores(decision.pod)
    diagnosis = diagnose(scores, decision.pod.extender_refusal)
    resolvable = sorted(scheduler.nodes.name(int(row)) for row in diagnosis.resolvable)
    return {"message": fit_error_message(diagnosis), "resolvable": resolvable}


def reason(text: str) -> str:
    """What an extender says itself, or that its answer is no good."""
    if "nodes are available" in text or text.endswith("no candidate node for preemption"):
        return text
    return "out of order" if "out of order" in text else "failed"


def requests(sent: list[Any]) -> Object:
    """By path; the order of nodes means nothing."""
    found: Object = {}
    for number, one in enumerate(sent):
        body = one["body"]
        body.pop("Node", None)  # any of equal ones
        if body.get("NodeNames"):
            body["NodeNames"].sort()
        if body.get("Nodes"):
            body["Nodes"]["items"].sort(key=lambda node: node["metadata"]["name"])
        before = sum(earlier["path"] == one["path"] for earlier in sent[:number])
        found[f"requests {one['path']} {before}"] = {**one, "body": without_empty(body)}
    return found


def without_empty(value: Any) -> Any:
    """Go writes some fields that are empty; a scheduler need not know which."""
    if isinstance(value, dict):
        found = {name: without_empty(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in ("", 0, {}, [], None)}
    return [without_empty(one) for one in value] if isinstance(value, list) else value


def theirs(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    found = {name: recorded[name] for name in ("extenders", "ignored")}
    if "end" not in recorded:
        return leaves(found)
    names = "hosts", "error", "nominated", "deleted", "message", "resolvable"
    found |= {name: recorded[name] for name in names if name in recorded}
    found["hosts"] = recorded.get("hosts", [])
    if "error" in found:
        found["error"] = reason(found["error"])
    if "hosts" in recorded:
        found |= {"bound": "bound" in recorded, "notbound": "notbound" in recorded}
    if "postfilter" in recorded:
        text = recorded["postfilter"].removeprefix(NO_CLAIMS)
        is_reason = text and "nominated" not in recorded
        found["postfilter"] = reason(text) if is_reason else ""
    return leaves(found | requests(recorded["requests"]))


def filter_answers(vector: Vector) -> Iterator[tuple[list[str], Object]]:
    """The nodes that extenders were asked about, and their answers, with names in small letters."""
    for one in vector.recorded.get("requests", ()):
        reported = vector.given["answers"][one["path"]]
        if one["path"].endswith("/filter") and reported.get("body", "")[:2] == '{"':
            names, nodes = one["body"]["NodeNames"], one["body"]["Nodes"]
            asked = names or [node["metadata"]["name"] for node in (nodes or {}).get("items", ())]
            said, _ = json.JSONDecoder().raw_decode(reported["body"])
            yield asked, {name.lower(): value for name, value in said.items()}


def nodes_as_extenders_send_them(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler goes on with the objects of an answer, whether it asked about them or not."""
    return any((said.get("nodes") or {}).get("items") for _, said in filter_answers(vector))


def reasons_of_other_nodes(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In kube-scheduler they replace those that plugins and other extenders have."""
    names = "message", "resolvable", "postfilter", "nominated", "deleted"
    return field.partition("[")[0] in names and any(
        (said.get("failednodes", {}) | said.get("failedandunresolvablenodes", {})).keys() - asked
        for asked, said in filter_answers(vector)
    )


def nodes_without_their_pods(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler scores nodes as if they were empty that it sends as objects to a filter."""
    filters = (one for one in vector.recorded.get("requests", ()) if "/filter" in one["path"])
    return field.startswith("hosts") and any(one["body"]["Nodes"] for one in filters)


def candidates_without_victims(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """In kube-scheduler preemption fails on nodes that extenders reject and pods could leave."""
    text = vector.recorded.get("postfilter", "")
    return (
        field == "postfilter" and "expected at least one victim pod" in text and here[field] != ""
    )


def test_extenders_have_the_say_that_they_have_in_kube_scheduler() -> None:
    differences = (
        nodes_as_extenders_send_them,
        reasons_of_other_nodes,
        nodes_without_their_pods,
        candidates_without_victims,
    )
    replay("scheduler_extenders", ours, theirs, differences)
