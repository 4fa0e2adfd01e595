"""The manager's webhooks as a real API server asks them, over their Service."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from koord_demo.programs import console_script
from kubernetes.aio import client as official

from tests.apiserver.real_cluster import ROOT, RealCluster, node, pod
from tests.support import admissions
from tests.support.kube_apiserver import ADMIN
from tests.support.manager_program import NAMESPACE, QUICK
from tests.support.waiting import until

FAIL = "--webhook-configuration-failure-policy-pods=Fail"
SECRET = "koordinator-webhook-certs"
_GATES = (
    "ReservationMutatingWebhook=true,NodeMutatingWebhook=true,NodeValidatingWebhook=true,"
    "ConfigMapValidatingWebhook=true"
)
_PROFILE = "config.koordinator.sh/v1alpha1"
SPEC = "node.koordinator.sh/extended-resource-spec"
RATIOS = "node.koordinator.sh/resource-amplification-ratio"
RAW = "node.koordinator.sh/raw-allocatable"
_PODS = 200
_PROFILES = 10


async def asked(cluster: RealCluster, name: str, *flags: str, gates: str = _GATES) -> None:
    """Such a manager, and the API server asks it."""
    await cluster.started(name, *QUICK, f"--feature-gates={gates}", *flags)
    cluster.namespace("batch", colocation="batch")
    cluster.kubectl("apply", "-f", str(ROOT / "deploy/examples/colocation-profile.yaml"))

    def mutated() -> bool:
        found = create(cluster, pod("probe", "batch", {}, {}))
        return bool("koordinator.sh/qosClass" in found["metadata"].get("labels", {}))

    await until(mutated, "a pod is made a batch pod")


def create(cluster: RealCluster, given: Mapping[str, Any]) -> dict[str, Any]:
    """As it would be if it were created."""
    words = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    return dict(json.loads(cluster.kubectl(*words, stdin=json.dumps(given))))


def refused(do: Callable[[], object]) -> str:
    """Why, as kubectl says it last; that of `kubectl apply` says what it tried before."""
    with pytest.raises(RuntimeError) as caught:
        do()
    return str(caught.value).splitlines()[-1]


async def test_a_pod_that_a_profile_is_for(cluster: RealCluster) -> None:
    await asked(cluster, "m1")
    amounts = {"cpu": "1500m", "memory": "1Gi"}
    given = pod("made", "batch", {}, {"requests": amounts, "limits": amounts})
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(given))
    made = cluster.get("pod", "made", "-n", "batch")
    (container,) = made["spec"]["containers"]
    asked_for = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"}
    assert container["resources"] == {"requests": asked_for, "limits": asked_for}
    spec = json.loads(made["metadata"]["annotations"][SPEC])
    assert spec == {"containers": {"c": {"requests": asked_for, "limits": asked_for}}}
    assert made["metadata"]["labels"] == {
        "koordinator.sh/qosClass": "BE",
        "koordinator.sh/priority": "1000",
    }
    assert made["spec"]["priorityClassName"] == "koord-batch"
    assert made["spec"]["priority"] == 5000
    assert made["status"]["qosClass"] == "BestEffort"


async def test_a_pod_that_cannot_be(cluster: RealCluster) -> None:
    await asked(cluster, "m1")
    cluster.namespace("default")
    odd, even = ({"cpu": one, "memory": "1Gi"} for one in ("1500m", "1"))
    spec = {"priorityClassName": "koord-prod", "nodeName": "n"}
    lse = {"koordinator.sh/qosClass": "LSE"}
    given = pod("lse", "default", spec, {"requests": odd, "limits": odd}, **lse)
    why = (
        'admission webhook "vpod.koordinator.sh" denied the request: pod "default/lse": '
        "its containers request 1500m CPU together; "
        "expected whole cores, 1 or more, with label koordinator.sh/qosClass LSE"
    )
    assert refused(lambda: create(cluster, given)).endswith(why)
    amounts = {"cpu": "10", "memory": "100Gi", "pods": "110"}
    cluster.apply(node("n"))
    cluster.status("node", "n", {"capacity": amounts, "allocatable": amounts})
    cluster.apply(pod("lse", "default", spec, {"requests": even, "limits": even}, **lse))
    more = [{"name": "c", "resources": {"requests": odd, "limits": odd}}]
    patch = ("-p", json.dumps({"spec": {"containers": more}}))
    resize = lambda: cluster.kubectl("patch", "pod", "lse", "--subresource=resize", *patch)  # noqa: E731
    assert refused(resize).endswith(why)
    cluster.kubectl("label", "pod", "lse", "example.com/a=b")


async def test_the_configuration(cluster: RealCluster) -> None:
    await asked(cluster, "m1")
    file = (ROOT / "deploy/base/slo-controller-config.yaml").read_text()
    bad = file.replace("'{\"enable\": true}'", "'{\"cpuReclaimThresholdPercent\": 170}'")
    assert refused(lambda: cluster.kubectl("apply", "-f", "-", stdin=bad)).endswith(
        'admission webhook "vconfigmap.koordinator.sh" denied the request: '
        "colocation-config cpuReclaimThresholdPercent is 170; expected 0 to 100"
    )
    cluster.kubectl("apply", "-f", "-", stdin=file)


async def test_nodes(cluster: RealCluster) -> None:
    await asked(cluster, "m1", "--controllers=nodemetric")
    cluster.apply(node("w1"))
    amounts = {"cpu": "10", "memory": "100Gi"}
    cluster.status("node", "w1", {"capacity": amounts, "allocatable": amounts})
    assert _allocatable(cluster) == amounts
    cluster.kubectl("annotate", "node", "w1", f'{RATIOS}={{"cpu": 1.5}}')
    _beat(cluster, "True")
    assert _allocatable(cluster) == {**amounts, "cpu": "15"}
    kept = cluster.get("node", "w1")["metadata"]["annotations"][RAW]
    assert json.loads(kept) == amounts
    cluster.status("node", "w1", {"allocatable": {"cpu": "8"}})
    assert _allocatable(cluster)["cpu"] == "12"
    cluster.kubectl("annotate", "node", "w1", f"{RATIOS}-")
    _beat(cluster, "False")
    assert _allocatable(cluster)["cpu"] == "8"
    assert RAW not in cluster.get("node", "w1")["metadata"].get("annotations", {})

    selectors = [
        {"name": one, "nodeSelector": {"matchLabels": {one: "yes"}}, "enable": True}
        for one in ("red", "blue")
    ]
    config = json.dumps({"enable": True, "nodeConfigs": selectors})
    patch = ("--type=merge", "-p", json.dumps({"data": {"colocation-config": config}}))
    cluster.kubectl("patch", "cm", "slo-controller-config", "-n", NAMESPACE, *patch)
    cluster.kubectl("label", "node", "w1", "red=yes")
    assert refused(lambda: cluster.kubectl("label", "node", "w1", "blue=yes")).endswith(
        "node w1: labels match "
        'colocation-config nodeConfigs[0] "red" and colocation-config nodeConfigs[1] "blue"; '
        "expected one of them at most"
    )


async def test_a_ratio_in_real_time_beside_a_kubelet_is_applied_once(cluster: RealCluster) -> None:
    await asked(cluster, "m1")
    cluster.namespace("shop")
    cluster.busy_node("w1", "shop")
    realtime = {"realtime": {"enable": True, "stepPercent": 1000}}
    config = json.dumps(
        {
            "enable": True,
            "resourceAmplificationRatio": {"cpu": 1.5},
            "extensions": {"pykoord": realtime},
        }
    )
    patch = json.dumps({"data": {"resource-amplification-config": config}})
    cluster.kubectl(
        *("patch", "cm", "slo-controller-config", "-n", NAMESPACE, "--type=merge", "-p", patch)
    )
    await until(lambda: "w1" in cluster.names("nodemetrics"), "its NodeMetric")
    await cluster.report("w1", "shop", 1)
    await until(lambda: _ratio(cluster) == '{"cpu":1.50}', "what is idle is shown again")
    for ready in ("True", "False", "True"):
        _beat(cluster, ready)
        assert _allocatable(cluster)["cpu"] == "15"
    cluster.status("node", "w1", {"allocatable": {"cpu": "8"}})
    assert _allocatable(cluster)["cpu"] == "12"


def _ratio(cluster: RealCluster) -> str:
    return str(cluster.get("node", "w1")["metadata"].get("annotations", {}).get(RATIOS, ""))


def _allocatable(cluster: RealCluster) -> dict[str, str]:
    return dict(cluster.get("node", "w1")["status"]["allocatable"])


def _beat(cluster: RealCluster, ready: str) -> None:
    """A status that says nothing of amounts."""
    cluster.status("node", "w1", {"conditions": [{"type": "Ready", "status": ready}]})


async def test_while_no_manager_runs(cluster: RealCluster) -> None:
    await asked(cluster, "m1", FAIL)
    await until(lambda: policies(cluster) == {"Fail"})
    assert not any(row["about"] == "webhooks" for row in await problems(cluster))
    (manager,) = cluster.managers
    await asyncio.to_thread(manager.stop)
    cluster.ask_nobody(manager)
    cluster.namespace("kube-system")
    create(cluster, pod("p", "kube-system", {}, {}))
    deployment = cluster.get("deployment", "koord-manager", "-n", NAMESPACE)
    template = deployment["spec"]["template"]
    meta = {**template["metadata"], "name": "m", "namespace": NAMESPACE}
    create(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]})
    cluster.apply(node("w2"))
    cluster.status("node", "w2", {"allocatable": {"cpu": "8"}})
    said = refused(lambda: create(cluster, pod("p", "batch", {}, {})))
    assert 'failed calling webhook "mpod-create.koordinator.sh"' in said
    cluster.namespace("default")
    said_of_webhooks = [
        row["text"] for row in await problems(cluster) if row["about"] == "webhooks"
    ]
    assert any("has no ready endpoint" in text for text in said_of_webhooks)
    assert any("failed calling webhook" in text for text in said_of_webhooks)


async def problems(cluster: RealCluster) -> list[dict[str, str]]:
    """The problems that ``koordctl doctor`` finds."""
    config = cluster.server.kubeconfig("admin", ADMIN)
    command = [console_script("koordctl"), "doctor", "cluster", "--json", f"--kubeconfig={config}"]
    done = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, timeout=60
    )
    rows = json.loads(done.stdout)
    assert done.returncode == int(any(row["level"] == "problem" for row in rows)), done.stderr
    return [row for row in rows if row["level"] == "problem"]


def policies(cluster: RealCluster) -> set[str]:
    """What becomes of pods while nobody answers."""
    return {one["failurePolicy"] for one in webhooks(cluster) if "pod" in one["name"]}


def webhooks(cluster: RealCluster) -> list[dict[str, Any]]:
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    found = [one for kind in kinds for one in cluster.get(kind)["items"]]
    return [webhook for one in found for webhook in one["webhooks"]]


async def test_what_is_made_of_pods_is_taken(cluster: RealCluster) -> None:
    """Of what is refused without us nothing is learnt. Nor is it by what we refuse ourselves."""
    await asked(cluster, "m1", FAIL, gates="PodValidatingWebhook=false")
    profiles = json.loads(_named(examples(admissions.profiles(), _PROFILES)))
    for number, one in enumerate(profiles):
        cluster.namespace(f"ns-{number}", profile=f"p-{number}")
        one["spec"]["namespaceSelector"] = {"matchLabels": {"profile": f"p-{number}"}}
        head = {"apiVersion": _PROFILE, "kind": "ClusterColocationProfile"}
        cluster.apply({**head, **one, "metadata": {**one["metadata"], "name": f"p-{number}"}})
    cluster.namespace("untouched", **{"control-plane": "x"})
    cluster.namespace("last", colocation="last")
    last = {"namespaceSelector": {"matchLabels": {"colocation": "last"}}, "labels": {"a": "b"}}
    head = {"apiVersion": _PROFILE, "kind": "ClusterColocationProfile"}
    cluster.apply({**head, "metadata": {"name": "last"}, "spec": last})

    def known() -> bool:
        found = create(cluster, pod("p", "last", {}, {}))
        return bool(found["metadata"].get("labels") == {"a": "b"})

    await until(known, "all profiles are known")

    taken = changed = 0
    async with cluster.client() as client:
        api = official.CoreV1Api(client)
        for number, one in enumerate(json.loads(_named(examples(admissions.pods(), _PODS)))):
            one["spec"].pop("priority", None)  # an admission plugin's alone to say
            try:
                plain = await api.create_namespaced_pod("untouched", one, dry_run="All")
            except official.ApiException:
                continue
            where = f"ns-{number % len(profiles)}"
            found = await api.create_namespaced_pod(where, one, dry_run="All")
            taken += 1
            changed += found.spec != plain.spec
    assert taken > _PODS / 2
    assert changed > _PODS / 4


def _named(given: Any) -> str:
    """In JSON, with keys of labels as the API server takes them."""
    return json.dumps(given).replace("example.com/a~b", "example.com/a.b")


def examples(strategy: Any, count: int) -> list[Any]:
    """So many of them, the same each time."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def gather(one: Any) -> None:
        found.append(one)

    gather()
    return found
