"""What is sent to extenders, and which answers are none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.extenders.calls import FilterCall, PreemptCall, PrioritizeCall
from koord_scheduler.extenders.extender import Extender
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

EXTENDER = Extender("http://e", "filter", "prioritize", "preempt", "bind", has_node_cache=True)


def prioritized(body: str) -> Any:
    return PrioritizeCall(EXTENDER, "d/web", ("n1",)).answer(body.encode())


@pytest.mark.parametrize(
    ("body", "scores"),
    [
        ("null", {}),
        ('[{"host": "n1", "SCORE": 3}] and more', {"n1": 30}),
        ('[{"Host": "n1", "Score": 3}, {"Host": "n1", "Score": 1}]', {"n1": 40}),
        ('[{"Host": null, "Score": null}, {}]', {"": 0}),
        (f'[{{"Host": "n1", "Score": {-(1 << 63)}}}]', {"n1": -10 * (1 << 63)}),
    ],
)
def test_answers_are_read_as_go_reads_them(body: str, scores: dict[str, int]) -> None:
    assert prioritized(body) == scores


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "{}",
        '["n1"]',
        '[{"Host": 1}]',
        '[{"Host": "n1", "Score": 1.0}]',
        '[{"Host": "n1", "Score": true}]',
        f'[{{"Host": "n1", "Score": {1 << 63}}}]',
    ],
)
def test_what_go_cannot_read_is_no_answer(body: str) -> None:
    with pytest.raises(ValueError, match="the answer"):
        prioritized(body)


def test_nodes_that_nobody_asked_about_are_no_answer() -> None:
    call = FilterCall(EXTENDER, "d/web", ("n1",))
    with pytest.raises(ValueError, match='"n2"'):
        call.answer(b'{"NodeNames": ["n1", "n2"]}')


def test_a_node_without_victims_is_no_candidate() -> None:
    body = b'{"NodeNameToMetaVictims": {"n1": {"Pods": []}}}'
    call = PreemptCall(EXTENDER, "d/web", (), lambda _: [])
    with pytest.raises(ValueError, match='at least one victim pod on node "n1"'):
        call.answer(body)
    assert replace(call, extender=replace(EXTENDER, ignorable=True)).answer(body) == ()
    with pytest.raises(ValueError, match='no node "n1"'):
        replace(call, pods_on=lambda _: None).answer(body)


def document(name: str, **more: Any) -> bytes:
    metadata = {"name": name, "namespace": "d", "uid": name, "managedFields": [{"manager": "x"}]}
    return json.dumps({"kind": "X", "apiVersion": "v1", "metadata": metadata, **more}).encode()


@pytest.mark.parametrize(
    ("changes", "nodes", "waiting", "placed"),
    [
        ({}, False, True, False),
        ({"has_node_cache": False}, True, True, True),
        ({"has_node_cache": False, "preempt_verb": ""}, True, True, False),
        ({"managed_resources": frozenset({"example.com/gpu"})}, False, False, False),
    ],
)
def test_only_what_may_be_sent_is_kept(
    changes: dict[str, Any], nodes: bool, waiting: bool, placed: bool
) -> None:
    documents = ApiDocuments([replace(EXTENDER, **changes)])
    read_pod = documents.reading_pods(PodReader(ClusterState()).read)
    documents.reading_nodes(read_node)(document("n1"))
    read_pod(document("web", spec={"containers": []}))
    read_pod(document("batch", spec={"containers": [], "nodeName": "n1"}))
    assert [json.loads(bytes(one)) for one in documents.nodes_of(["n1"])] == (
        [{"metadata": {"name": "n1", "namespace": "d", "uid": "n1"}}] if nodes else []
    )
    for name, is_kept in (("web", waiting), ("batch", placed)):
        if is_kept:
            assert json.loads(bytes(documents.pod(f"d/{name}")))["metadata"]["uid"] == name
            documents.forget_pod(f"d/{name}")
        with pytest.raises(ValueError, match="is gone"):
            documents.pod(f"d/{name}")
    documents.forget_node("n1")
    assert documents.nodes_of(["n1"]) == []
