"""Batch pods of which no webhook has said what they ask for have limits all the same."""

from __future__ import annotations

import json
from typing import Any

from koord_hooks.builtin import batchresource
from koord_host.knobs.layout import Driver, Layout
from koord_manager.pod_webhook import document, extended_resource_spec
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC as WRITTEN
from koord_model.node import NodeView
from koordlet.states_informer.state.kubelet_pods import parse
from koordlet.states_informer.state.pod_inventory import PodRecord


def asking(name: str, cpu: Any, **more: Any) -> dict[str, Any]:
    batch = {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": "1Gi", "cpu": "1"}
    return {"name": name, "resources": {"limits": batch, "requests": batch}, **more}


def job(*containers: dict[str, Any], **annotations: str) -> dict[str, Any]:
    inits = [asking("fetch", "500"), asking("proxy", "250", restartPolicy="Always")]
    return {
        "metadata": {
            "name": "job",
            "namespace": "batch",
            "uid": "u1",
            "labels": {"koordinator.sh/qosClass": "BE"},
            "annotations": {"x": "y", **annotations},
        },
        "spec": {"containers": list(containers), "initContainers": inits},
        "status": {
            "phase": "Running",
            "qosClass": "BestEffort",
            "containerStatuses": [
                {"name": "main", "containerID": "containerd://c1", "state": {"running": {}}}
            ],
        },
    }


def listed(pod: dict[str, Any]) -> PodRecord:
    [record] = parse(json.dumps({"items": [pod]}).encode(), Layout(2, Driver.SYSTEMD))
    return record


def test_it_is_what_the_webhook_would_have_written() -> None:
    pod = job(asking("main", 2000), {"name": "plain"})
    found = listed(pod).pod.annotations
    assert json.loads(found[WRITTEN]) == extended_resource_spec.spec_of(document.read(pod))
    assert found["x"] == "y"


def test_its_containers_have_limits() -> None:
    [container] = listed(job(asking("main", "2000"))).containers.values()
    patch = batchresource.pre_create_container(container, NodeView())
    assert patch is not None
    assert (patch.resources.cpu_quota, patch.resources.memory_limit) == (200_000, 1 << 30)


def test_what_was_written_counts_and_nothing_is_made_up() -> None:
    assert listed(job(asking("main", 2000), **{WRITTEN: "{}"})).pod.annotations[WRITTEN] == "{}"
    plain = job({"name": "main", "resources": {"requests": {"cpu": "1"}}})
    plain["spec"]["initContainers"] = None
    assert WRITTEN not in listed(plain).pod.annotations
