"""Profiles of services beside a real API server, with the rights of deploy/components.

The definition of descriptors is written here after Katalyst's, with the fields that we read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from typing import Any

from koord_demo.programs import console_script
from koord_manager.service_profiles.core.document import TYPE_LABEL

from tests.apiserver.real_cluster import RealCluster, pod
from tests.support.manager_program import QUICK, ManagerProgram
from tests.support.waiting import until

GATES = "--feature-gates=ServiceProfiles=true,KatalystVocabulary=true"
GROUP, KIND = "workload.katalyst.kubewharf.io", "ServiceProfileDescriptor"
META = {"name": "web", "namespace": "shop"}


def struct(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def by_name(**properties: Any) -> dict[str, Any]:
    items = struct(["name"], name=TEXT, **properties)
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return {"type": "array", "items": items} | keys


TEXT = {"type": "string"}
PERCENT = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
BOUND = struct(["indicatorLevel", "value"], indicatorLevel=TEXT, value={"type": "number"})
BOUNDS = {"type": "array", "items": BOUND}
SPECIFICATION = struct(
    ["targetRef"],
    targetRef=struct(["kind", "name"], apiVersion=TEXT, kind=TEXT, name=TEXT),
    baselinePercent=PERCENT,
    systemIndicator=by_name(indicators=BOUNDS),
    businessIndicator=by_name(indicators=BOUNDS),
    extendedIndicator=by_name(baselinePercent=PERCENT, indicators=OPEN),
)
PLURAL = "serviceprofiledescriptors"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "shortNames": ["spd"]},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": struct([], spec=SPECIFICATION, status=OPEN)},
            }
        ],
    },
}


def specification(cpi: float) -> dict[str, Any]:
    bounds = [{"indicatorLevel": "UpperBound", "value": cpi}]
    return {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "systemIndicator": [{"name": "cpi", "indicators": bounds}],
    }


def config_map(cpi: float) -> dict[str, Any]:
    meta = {**META, "labels": dict([TYPE_LABEL])}
    data = {"spec": json.dumps(specification(cpi))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def descriptor(cpi: float) -> dict[str, Any]:
    spec = specification(cpi)
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": META, "spec": spec}


async def test_profiles_reach_a_node_through_a_change_of_leader(cluster: RealCluster) -> None:
    cluster.namespace("shop")
    cluster.busy_node("n9", "shop")
    labels = {"run": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment = {"selector": {"matchLabels": labels}, "template": template}
    cluster.kubectl("label", "pod", "web-n9", "-n", "shop", "run=web")
    cluster.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": META, "spec": deployment},
        config_map(1.1),
        DEFINITION,
    )
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    cluster.apply(descriptor(1.4))

    def targets() -> list[float]:
        if "n9" not in cluster.names("nodeslos"):
            return []
        spec = cluster.get("nodeslo", "n9")["spec"]
        listed = spec.get("extensions", {}).get("pykoord", {}).get("services", [])
        return [entry["targets"]["cpi"] for entry in listed]

    first = await cluster.started("m1", *QUICK, GATES)
    await until(lambda: targets() == [1.4], "the descriptor's, not the ConfigMap's")
    await until(lambda: "is -1" in refusal(cluster, config_map(-1.0)), "its webhook")
    second = await cluster.started("m2", *QUICK, GATES)
    # On a slow machine the first may have lost its short Lease by now.
    leader, other = (first, second) if first.leads else (second, first)
    code, said = await why(other, "web")
    assert code == 1
    assert f"this manager does not calculate services at present; {leader.name}_" in said
    await _check_conflict(cluster, leader, other)
    version = cluster.get("nodeslo", "n9")["metadata"]["resourceVersion"]
    leader.kill()
    cluster.apply(config_map(1.2))
    await until(lambda: other.leads, "the other leads")
    assert cluster.get("nodeslo", "n9")["metadata"]["resourceVersion"] == version
    cluster.apply(descriptor(1.5))
    await until(lambda: targets() == [1.5], "what is new")
    code, said = await why(other, "web")
    assert said.splitlines()[:2] == [
        f"{KIND} shop/web is in force for Deployment web: 1 pod on 1 node",
        "  target cpi: 1.5 cycles for each instruction",
    ]
    assert f"ConfigMap shop/web has no effect: {KIND} shop/web is for the same Deployment" in said
    code, said = await why(other, "mail")
    assert code == 1
    assert "there is no profile shop/mail; there are web (Deployment web)" in said
    cluster.kubectl("delete", "spd", "web", "-n", "shop")
    await until(lambda: targets() == [1.2], "the ConfigMap's")
    cluster.kubectl("delete", "cm", "web", "-n", "shop")
    await until(lambda: targets() == [], "gone with its profile")


async def _check_conflict(
    cluster: RealCluster, leader: ManagerProgram, follower: ManagerProgram
) -> None:
    """Words of Katalyst's that conflict with Koordinator's are an Event, whoever is asked."""
    cluster.ask_nobody(leader)
    numbers = itertools.count()

    def is_reported() -> bool:
        name = f"odd-{next(numbers)}"
        made = pod(name, "shop", {}, {}, **{"koordinator.sh/qosClass": "LS"})
        made["metadata"]["annotations"] = {"katalyst.kubewharf.io/qos_level": "reclaimed_cores"}
        cluster.apply(made)
        uid = cluster.get("pod", name, "-n", "shop")["metadata"]["uid"]
        fields = f"--field-selector=involvedObject.uid={uid}"
        return any(
            event["reason"] == "KatalystWordsIgnored"
            and event["source"]["host"] == follower.name
            and event["message"].endswith("the label counts")
            for event in cluster.get("events", "-n", "shop", fields)["items"]
        )

    await until(is_reported, "an Event")


def refusal(cluster: RealCluster, given: dict[str, Any]) -> str:
    """How the API server refuses an object; "" if it does not."""
    try:
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(given))
    except RuntimeError as error:
        return str(error).splitlines()[-1]
    return ""


async def why(manager: ManagerProgram, service: str) -> tuple[int, str]:
    address = f"--address={manager.host}:{manager.port}"
    command = [console_script("koordctl"), "why", "service", f"shop/{service}", address]
    done = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr
