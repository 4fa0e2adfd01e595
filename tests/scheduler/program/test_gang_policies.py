"""What is shown of a gang's policies, for ``koordctl gangs`` and ``why pending``."""

from __future__ import annotations

import json

from koord_scheduler.plugins.coscheduling.gangs_document import gangs_document
from koord_scheduler.program.explanation import Now, explain_waiting
from koord_scheduler.state.pod_reader import PodReader

from tests.scheduler.plugins.coscheduling.test_scheduling_groups import (
    cluster_with,
    composite,
    gang,
    within,
)
from tests.support.gangs import GangCluster

NOW = Now(100.0, 1767225690.0)


def shown(cluster: GangCluster) -> dict[str, str]:
    """The policy of each gang."""
    rows = gangs_document(cluster.scheduler)["gangs"]
    return {one["name"].removesuffix(".scheduling.k8s.io"): one["policy"] for one in rows}


def test_policies_are_reported_in_the_words_of_those_who_set_them() -> None:
    cluster = cluster_with("n1")
    cluster.composite("all", composite(1, **within("block")))
    spec = {"parentCompositePodGroupName": "all", "disruptionMode": {"all": {}}}
    cluster.scheduling_group("a", gang(2, **spec, **within("rack")))
    cluster.scheduling_group("b", {"schedulingPolicy": {"basic": {}}, **spec})
    claim = {"name": "link", "resourceClaimName": "c"}
    cluster.scheduling_group("c", gang(1, resourceClaims=[claim]))
    tree = "part of all, minGroupCount 1 of 2, one block"
    assert shown(cluster) == {
        "d/a": f"minCount 2, {tree}, one rack, disrupted whole",
        "d/b": f"basic, {tree}, disrupted whole",
        "d/c": "minCount 1, claim link",
    }
    koordinators = GangCluster("n1")
    koordinators.gang("g", 2, mode="NonStrict")
    assert shown(koordinators) == {"d/g": "NonStrict, once-satisfied"}


def test_a_waiting_pod_says_what_its_group_asks_for() -> None:
    cluster = cluster_with("n1", cpus=1)
    cluster.scheduling_group("g", gang(2))
    for name in ("p", "q"):
        cluster.pod(name, schedulingGroup={"podGroupName": "g"})
    list(cluster.decisions())
    raw = json.dumps(cluster.documents["d/p"]).encode()
    found = explain_waiting(cluster.scheduler, PodReader(cluster.scheduler.nodes).read(raw), NOW)
    assert (found["gang"]["policy"], found["gang"]["fitted"]) == ("minCount 2", 1)
