from __future__ import annotations

from typing import Any

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS as ALL
from koord_kube.protocol.resources import (
    DEFINITIONS,
    ELASTIC_QUOTAS,
    NODES,
    QUOTA_PROFILES,
)
from koord_manager.quota.controller import QuotaProfileController
from koord_model.keys import LABEL_QUOTA_IS_ROOT, LABEL_QUOTA_TREE

from tests.manager.conftest import PACE, Bench

Object = dict[str, Any]
PROFILE = {
    "metadata": {"name": "p", "namespace": "quotas"},
    "spec": {"quotaName": "red-root", "nodeSelector": {"matchLabels": {"pool": "red"}}},
}


def node(name: str, pool: str) -> Object:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [ready]},
    }


def start(bench: Bench) -> QuotaProfileController:
    for one in ALL:
        bench.api.put(DEFINITIONS, one)
    bench.api.put(NODES, node("n1", "red"))
    bench.api.put(NODES, node("n2", "blue"))
    bench.api.put(QUOTA_PROFILES, PROFILE, "quotas")
    controller = QuotaProfileController(
        bench.client,
        bench.nodes(lambda *_: None),
        bench.recorder(),
        on_warning=bench.reported.append,
        again=0.01,
        pace=PACE,
    )
    bench.run(controller.run())
    return controller


def quota(bench: Bench) -> Object:
    kept = bench.api.objects.items()
    found = [
        one for key, one in kept if (key.resource, key.namespace) == (ELASTIC_QUOTAS, "quotas")
    ]
    return found[0] if found else {}


async def test_a_profile_makes_a_quota_of_its_nodes_and_keeps_it_so(bench: Bench) -> None:
    controller = start(bench)
    await bench.until(lambda: bool(quota(bench)))
    made = quota(bench)
    tree = bench.api.get(QUOTA_PROFILES, "p", "quotas")["metadata"]["labels"][LABEL_QUOTA_TREE]
    labels = made["metadata"]["labels"]
    assert (labels[LABEL_QUOTA_TREE], labels[LABEL_QUOTA_IS_ROOT]) == (tree, "true")
    assert made["spec"]["min"] == {"cpu": "4", "memory": "8Gi"}
    bench.api.put(NODES, node("n3", "red"))
    await bench.until(lambda: quota(bench)["spec"]["min"]["cpu"] == "8")
    version, handled = quota(bench)["metadata"]["resourceVersion"], controller.loop.handled
    await bench.until(lambda: controller.loop.handled > handled + 3)
    assert quota(bench)["metadata"]["resourceVersion"] == version


async def test_a_quota_that_cannot_be_written_is_an_event(bench: Bench) -> None:
    bench.api.fail(verb="create", plural="elasticquotas", status=403)
    start(bench)
    await bench.until(lambda: bool(bench.events()))
    ((reason, _),) = bench.events()
    assert reason == "UpdateQuotaFailed"
    assert any("elasticquotas" in line for line in bench.reported)


SELECTOR = {"matchExpressions": [{"key": "pool", "operator": "In"}]}


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodeSelector", SELECTOR), ("quotaName", "../../victims/elasticquotas/victim")],
)
async def test_a_profile_that_is_wrong_costs_only_itself(
    bench: Bench, field: str, value: object
) -> None:
    bench.api.put(ELASTIC_QUOTAS, {"metadata": {"name": "victim"}}, "victims")
    spec = {"quotaName": "w", "nodeSelector": {}, field: value}
    wrong = {"metadata": {"name": "w", "namespace": "quotas"}, "spec": spec}
    # From before its definition had a pattern.
    bench.api.put(QUOTA_PROFILES, wrong, "quotas")
    start(bench)
    await bench.until(lambda: any(f"spec.{field}" in line for line in bench.reported))
    await bench.until(lambda: bool(quota(bench)))
    assert {key.name for key in bench.api.objects if key.resource == ELASTIC_QUOTAS} == {
        "red-root",
        "victim",
    }
    await bench.until(lambda: bool(bench.events()))
    ((reason, message),) = bench.events()
    assert (reason, f"spec.{field}" in message) == ("InvalidQuotaProfile", True)
    asked = [one.path for one in bench.api.asked]
    assert not any("victim" in one or ".." in one for one in asked)
