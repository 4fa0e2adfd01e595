"""Quotas with a real API server: its webhooks, what pods are charged, and quotas of nodes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kubernetes.aio import client as official

from tests.apiserver.real_cluster import ROOT, RealCluster, pod
from tests.apiserver.test_webhooks import refused, webhooks
from tests.support.manager_program import NAMESPACE, QUICK, WEBHOOKS
from tests.support.waiting import until

Object = dict[str, Any]
API = "scheduling.sigs.k8s.io/v1alpha1"
PREFIX = "quota.scheduling.koordinator.sh"
THEIRS = {
    "mutating": (
        "melasticquota",
        "mnode-status",
        "mpod-create",
        "mpod-update",
        "mreservation-create",
    ),
    "validating": ("vconfigmap", "velasticquota", "vnode", "vpod", "vpodbinding"),
}
"""All that Koordinator's manifests have."""
OFF = {"mnode-status", "mpod-update", "mreservation-create", "vconfigmap", "vnode", "vpodbinding"}
"""Those whose gates are off by default, in Koordinator too, or that change nothing."""


def quota(
    name: str, most: str = "10", least: str = "0", where: str = "kube-system", **labels: str
) -> Object:
    named = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in labels.items()}
    metadata = {"name": name, "namespace": where, "labels": named}
    spec = {"min": {"cpu": least}, "max": {"cpu": most}}
    return {"apiVersion": API, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


async def _answered(cluster: RealCluster, *flags: str, managers: int = 1) -> None:
    """So many managers, and the API server asks them about quotas."""
    for namespace in ("kube-system", "team"):
        cluster.namespace(namespace)
    for number in range(managers):
        await cluster.started(f"q{number}", *QUICK, *flags)

    def defaulted() -> bool:
        words = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        try:
            made = json.loads(cluster.kubectl(*words, stdin=json.dumps(quota("probe"))))
        except RuntimeError:
            return False  # it is refused while nobody answers
        return f"{PREFIX}/parent" in made["metadata"].get("labels", {})

    await until(defaulted, "quotas get their defaults")


def _theirs(kind: str) -> Object:
    """Koordinator's configuration; its manager is gone."""
    path = "/mutate-x" if kind == "mutating" else "/validate-x"
    service = {"namespace": NAMESPACE, "name": WEBHOOKS, "path": path}
    entries = [
        {
            "name": f"{name}.koordinator.sh",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service},
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "rules": [
                {
                    "apiGroups": ["example.com"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["things"],
                }
            ],
        }
        for name in THEIRS[kind]
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind.capitalize()}WebhookConfiguration",
        "metadata": {"name": f"koordinator-{kind}-webhook-configuration"},
        "webhooks": entries,
    }


async def test_a_takeover_loses_no_webhook(cluster: RealCluster) -> None:
    cluster.apply(*(_theirs(kind) for kind in THEIRS))
    await _answered(cluster)
    names = {one["name"].partition(".")[0] for one in webhooks(cluster)}
    assert names == {name for found in THEIRS.values() for name in found} - OFF
    assert all(one["clientConfig"].get("caBundle") for one in webhooks(cluster))
    served = {one["clientConfig"]["service"]["path"] for one in webhooks(cluster)}
    assert not served & {"/mutate-x", "/validate-x"}


async def test_the_tree_keeps_its_rules(cluster: RealCluster) -> None:
    await _answered(cluster)
    cluster.kubectl("apply", "-f", str(ROOT / "deploy/examples/elastic-quotas.yaml"))
    cluster.apply(quota("org", "20", "10", is_parent="true", tree_id="t"))
    cluster.apply(quota("dev", "20", "6", parent="org"))
    made = cluster.get("elasticquota", "dev", "-n", "kube-system")["metadata"]
    assert made["labels"][f"{PREFIX}/tree-id"] == "t"
    assert made["annotations"][f"{PREFIX}/shared-weight"] == '{"cpu":"20"}'
    said = refused(lambda: cluster.apply(quota("ops", "20", "6", parent="org")))
    assert "cpu 12 > 10" in said
    child = ("elasticquota", "dev", "-n", "kube-system")
    said = refused(lambda: cluster.kubectl("label", *child, "--overwrite", f"{PREFIX}/tree-id=u"))
    assert "cannot change" in said
    assert "dev" in refused(
        lambda: cluster.kubectl("delete", "elasticquota", "org", "-n", "kube-system")
    )
    labels = {f"{PREFIX}/name": "dev"}
    cluster.apply(pod("p1", "team", {}, {}, **labels))
    assert "pods belong to it" in refused(lambda: cluster.kubectl("delete", *child))
    cluster.kubectl("delete", "pod", "p1", "-n", "team", "--force", "--grace-period=0")
    cluster.kubectl("delete", *child)
    cluster.kubectl("delete", "elasticquota", "org", "-n", "kube-system")


async def test_two_managers_admit_no_more_pods_than_there_is_room_for(cluster: RealCluster) -> None:
    await _answered(
        cluster,
        "--feature-gates=EnableQuotaAdmission=true",
        "--webhook-configuration-failure-policy-pods=Fail",
        managers=2,
    )
    cluster.apply(quota("team", "10", where="team"))

    def known() -> bool:
        words = ("create", "--dry-run=server", "-f", "-")
        many = pod("probe", "team", {}, {"requests": {"cpu": "11"}})
        try:
            cluster.kubectl(*words, stdin=json.dumps(many))
        except RuntimeError:
            return True
        return False

    await until(known, "the quota is known")
    async with cluster.client() as client:
        api = official.CoreV1Api(client)

        async def create(number: int) -> str:
            """Why it was refused; "" if it was not."""
            given = pod(f"w{number}", "team", {}, {"requests": {"cpu": "1"}})
            try:
                await api.create_namespaced_pod("team", given)
            except official.ApiException as error:
                return str(error.body)
            return ""

        answers = await asyncio.gather(*(create(number) for number in range(40)))
    created = answers.count("")
    assert all("ElasticQuota" in answer for answer in answers if answer)
    noted = cluster.get("elasticquota", "team", "-n", "team")["metadata"]["annotations"]
    assert json.loads(noted[f"{PREFIX}/child-request"]) == {"cpu": str(created)}
    assert 5 <= created <= 10


async def test_nodes_make_the_quota_of_a_profile(cluster: RealCluster) -> None:
    await _answered(cluster)
    cluster.ready_node("r1", {"cpu": "4", "memory": "8Gi"})
    cluster.kubectl("label", "node", "r1", "pool=red")
    selector = {"matchLabels": {"pool": "red"}}
    cluster.apply(
        {
            "apiVersion": "quota.koordinator.sh/v1alpha1",
            "kind": "ElasticQuotaProfile",
            "metadata": {"name": "red", "namespace": "kube-system"},
            "spec": {
                "quotaName": "red-root",
                "nodeSelector": selector,
                "resourceRatio": "0.5",
                "quotaLabels": {f"{PREFIX}/is-parent": "true"},
            },
        }
    )

    def is_made() -> bool:
        found = cluster.get("elasticquotas", "-n", "kube-system")["items"]
        return any(one["metadata"]["name"] == "red-root" for one in found)

    await until(is_made, "its quota")
    made = cluster.get("elasticquota", "red-root", "-n", "kube-system")
    assert made["spec"]["min"] == {"cpu": "2", "memory": "4Gi"}
    labels = made["metadata"]["labels"]
    assert (labels[f"{PREFIX}/profile"], labels[f"{PREFIX}/is-root"]) == ("red", "true")
    tree = cluster.get("eqp", "red", "-n", "kube-system")["metadata"]["labels"]
    assert labels[f"{PREFIX}/tree-id"] == tree[f"{PREFIX}/tree-id"]


async def test_only_named_users_bind_pods(cluster: RealCluster) -> None:
    flags = (
        "--feature-gates=BindingAdmissionWebhook=true",
        "--binding-admission-user-name=koord-scheduler",
        "--binding-admission-namespaces=*",
    )
    await _answered(cluster, *flags)
    cluster.ready_node("b1", {"cpu": "4", "pods": "9"})
    cluster.apply(pod("bound", "team", {}, {}), pod("exempt", "team", {}, {}))
    bypass = "koordinator.sh/binding-admission-bypass=yes"
    cluster.kubectl("label", "pod", "exempt", "-n", "team", bypass)

    def bind(name: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "team"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "b1"},
        }
        path = f"/api/v1/namespaces/team/pods/{name}/binding"
        cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))

    assert "may not bind it" in refused(lambda: bind("bound"))
    bind("exempt")
