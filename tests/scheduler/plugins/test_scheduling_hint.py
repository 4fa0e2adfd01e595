"""Pods go to the nodes of their hint, or there first."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import ANNOTATION_OLD_SCHEDULING_HINT, ANNOTATION_SCHEDULING_HINT
from koord_scheduler.config.scheduler_config import scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Decision, Placement, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.nominations import Nomination
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.scheduling_hint import PodHint, scheduling_hint

NODES = ("large", "full", "small")
"""In the order in which a pod without a hint takes them; it does not fit on the second one."""
CPUS = {"large": 8, "full": 0, "small": 2}


class Cluster:
    """A scheduler that has SchedulingHint where Koordinator's configuration has it."""

    def __init__(self, most: int = 100) -> None:
        config = scheduler_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {
                        "plugins": {
                            "preFilter": {"enabled": [{"name": "SchedulingHint"}]},
                            "preBind": {"enabled": [{"name": "DefaultPreBind"}]},
                        },
                        "pluginConfig": [
                            {"name": "SchedulingHint", "args": {"maxHintNodes": most}}
                        ],
                    }
                ],
            }
        )
        self.scheduler = Scheduler([config.profiles[0].guarded()])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: one for one in kinds}
        for name in NODES:
            has = {"cpu": str(CPUS[name]), "memory": "8Gi", "pods": "9"}
            self.put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": has}})

    def put(self, kind: str, key: str, document: dict[str, Any]) -> None:
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def decide(self, annotations: dict[str, str]) -> Decision:
        self.put("Pod", "shop/web", pod(annotations))
        decision = self.scheduler.decide(0.0)
        assert decision is not None
        return decision  # type: ignore[return-value]


def pod(annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "web", "namespace": "shop", "uid": "1", "annotations": annotations}
    spec = {"containers": [container], "schedulerName": "default-scheduler"}
    return {"metadata": metadata, "spec": spec}


def annotated(hint: object) -> dict[str, str]:
    return {ANNOTATION_SCHEDULING_HINT: json.dumps(hint)}


NAMES = st.lists(st.sampled_from([*NODES, "unknown"]), max_size=4)


@given(NAMES, NAMES, st.integers(1, 3))
def test_the_first_preferred_node_that_fits_is_taken(
    only: list[str], preferred: list[str], most: int
) -> None:
    decision = Cluster(most).decide(annotated({"nodeNames": only, "preferredNodeNames": preferred}))
    fits = [name for name in NODES if CPUS[name] and (not only or name in only)]
    expected = [name for name in preferred[:most] if name in fits] or fits
    if not fits:
        assert isinstance(decision, Refusal)
    else:
        assert isinstance(decision, Placement)
        assert decision.node == expected[0]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, PodHint()),
        ({ANNOTATION_SCHEDULING_HINT: ""}, PodHint()),
        ({ANNOTATION_SCHEDULING_HINT: "null"}, PodHint()),
        ({ANNOTATION_SCHEDULING_HINT: "", ANNOTATION_OLD_SCHEDULING_HINT: "{}"}, PodHint()),
        (
            {ANNOTATION_OLD_SCHEDULING_HINT: '{"nodeNames": ["a"], "extensions": {"b": 1}}'},
            PodHint(("a",)),
        ),
        (
            {
                ANNOTATION_SCHEDULING_HINT: '{"preferredNodeNames": ["a"], "nodeNames": null}',
                ANNOTATION_OLD_SCHEDULING_HINT: '{"nodeNames": ["b"]}',
            },
            PodHint((), ("a",)),
        ),
    ],
)
def test_hints_are_read_as_koordinator_reads_them(
    annotations: dict[str, str], expected: PodHint
) -> None:
    assert scheduling_hint(read_pod(json.dumps(pod(annotations)).encode())) == expected


@pytest.mark.parametrize("text", ["{", "[]", '{"nodeNames": "a"}'])
def test_a_hint_that_cannot_be_read_makes_the_pod_wait(text: str) -> None:
    cluster = Cluster()
    decision = cluster.decide({ANNOTATION_SCHEDULING_HINT: text})
    assert isinstance(decision, Refusal)
    diagnosis = diagnose(cluster.scheduler.scores(decision.pod))
    assert ANNOTATION_SCHEDULING_HINT in diagnosis.pre_filter
    assert not len(diagnosis.resolvable)


def test_a_node_that_is_kept_for_the_pod_comes_before_preferred_ones() -> None:
    cluster = Cluster()
    hint = annotated({"preferredNodeNames": ["large"]})
    cluster.put("Pod", "shop/web", pod(hint))
    waiting = cluster.scheduler.queue.next()
    assert waiting is not None
    usage = waiting.waiting.usage
    cluster.scheduler.nominations.set(Nomination("shop/web", "small", 0, usage))
    decision = cluster.scheduler.decide(0.0)
    assert isinstance(decision, Placement)
    assert decision.node == "small"


@pytest.mark.parametrize(
    ("hint", "is_enough"), [({"preferredNodeNames": ["small"]}, False), ({}, True)]
)
def test_a_sample_of_nodes_does_not_do_where_some_are_preferred(
    hint: dict[str, Any], is_enough: bool
) -> None:
    cluster = Cluster()
    cluster.put("Pod", "shop/web", pod(annotated(hint)))
    waiting = cluster.scheduler.queue.next()
    assert waiting is not None
    rows = np.flatnonzero(cluster.scheduler.nodes.is_node)
    found = cluster.scheduler.scores(waiting).best_of_sample(rows, 1)
    assert (found is not None) is is_enough
