"""Names that would be paths, and callers without credentials, with a real API server."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tests.apiserver.real_cluster import RealCluster, node, pod
from tests.apiserver.test_quotas import PREFIX, _answered, quota
from tests.apiserver.test_webhooks import refused
from tests.support.manager_program import NAMESPACE, ManagerProgram
from tests.support.waiting import until

Object = dict[str, Any]
PATH = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
HOSTILE = (
    "../nodes?x=",
    "..?x=",
    "../../../apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas?x=",
    "../pods?watch=1&timeoutSeconds=20&x=",
    "..%2fnodes",
    "",
)
SECRET = ("secret-node-7", "secret-pod")
AUDIENCE, CALLER = "webhooks.koordinator.sh", "api-servers"


def listing(name: str, *namespaces: str, where: str = "team", **labels: str) -> Object:
    made = quota(name, where=where, **labels)
    made["metadata"]["annotations"] = {f"{PREFIX}/namespaces": json.dumps(namespaces)}
    return made


def asked(manager: ManagerProgram, old: Object, new: Object) -> tuple[int, str]:
    """Status and refusal that somebody without credentials gets at the webhooks' port."""
    metadata = new["metadata"]
    request = {
        "uid": "1",
        "operation": "UPDATE",
        "resource": {
            "group": "scheduling.sigs.k8s.io",
            "version": "v1alpha1",
            "resource": "elasticquotas",
        },
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    given = urllib.request.Request(
        f"https://{manager.host}:{manager.webhook_port}{PATH}",
        json.dumps(review).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(given, context=context, timeout=30) as answer:
            response = json.load(answer)["response"]
            return answer.status, response.get("status", {}).get("message", "")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def author(cluster: RealCluster, group: str, plural: str) -> str:
    """The token of somebody who may write this kind in "team", and nothing else."""
    meta = {"name": f"author-of-{plural}", "namespace": "team"}
    rbac = "rbac.authorization.k8s.io"
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [{"apiGroups": [group], "resources": [plural], "verbs": ["*"]}],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": meta["name"]},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    )
    return cluster.kubectl("create", "token", meta["name"], "-n", "team").strip()


async def test_namespaces_of_a_quota_lead_nowhere_else(cluster: RealCluster) -> None:
    await _answered(cluster)
    cluster.namespace("other")
    cluster.apply(node(SECRET[0]), pod(SECRET[1], "other", {}, {}))
    token = author(cluster, "scheduling.sigs.k8s.io", "elasticquotas")

    def write(*words: str, given: Object | None = None) -> str:
        stdin = "" if given is None else json.dumps(given)
        return refused(lambda: cluster.kubectl(*words, stdin=stdin, token=token))

    create = ("create", "-f", "-")
    for one in HOSTILE:
        assert "expected a namespace" in write(*create, given=listing("mine", one))
    cluster.kubectl(*create, stdin=json.dumps(listing("mine", "other")), token=token)
    await asyncio.sleep(1)
    said = write("label", "elasticquota", "mine", "-n", "team", f"{PREFIX}/is-parent=true")
    assert "pods belong to it" in said
    assert not any(secret in said for secret in SECRET)
    parent = {"is_parent": "true"}
    for one in (*HOSTILE, "other", "kube-system"):
        _, said = await asyncio.to_thread(
            asked,
            cluster.managers[0],
            listing("none", one, where="any"),
            listing("none", one, where="any", **parent),
        )
        assert said
        assert not any(secret in said for secret in SECRET)


async def test_a_name_that_is_too_long_for_a_label(cluster: RealCluster) -> None:
    await _answered(cluster)
    name = "team-" + "a" * 70
    cluster.apply(quota(name, "10", "1"))
    await asyncio.sleep(1)
    where = ("elasticquota", name, "-n", "kube-system")
    cluster.kubectl("label", *where, f"{PREFIX}/is-parent=true")
    cluster.kubectl("delete", *where)


async def test_a_profile_makes_no_quota_elsewhere(cluster: RealCluster) -> None:
    await _answered(cluster)
    cluster.namespace("victims")
    cluster.apply(quota("victim", "10", "2", where="victims"))
    token = author(cluster, "quota.koordinator.sh", "elasticquotaprofiles")
    profile = {
        "apiVersion": "quota.koordinator.sh/v1alpha1",
        "kind": "ElasticQuotaProfile",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "quotaName": "../../victims/elasticquotas/victim",
            "nodeSelector": {"matchLabels": {"no": "such"}},
        },
    }

    def write() -> None:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(profile), token=token)

    assert "spec.quotaName" in refused(write)
    # As in a cluster whose definition is Koordinator's: the manager refuses it as well.
    crd = ("crd", "elasticquotaprofiles.quota.koordinator.sh", "--type=json", "-p")
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/quotaName"
    remove = json.dumps([{"op": "remove", "path": f"{path}/pattern"}])
    cluster.kubectl("patch", *crd, remove)
    before = cluster.get("elasticquota", "victim", "-n", "victims")

    def is_created() -> bool:
        try:
            write()
        except RuntimeError:
            return False  # servers take a changed definition some time after
        return True

    await until(is_created, "the profile")

    def reported() -> bool:
        events = cluster.get("events", "-n", "team")["items"]
        return any(one["reason"] == "InvalidQuotaProfile" for one in events)

    await until(reported, "the Event")
    assert cluster.get("elasticquota", "victim", "-n", "victims") == before
    cluster.kubectl("delete", "elasticquotaprofile", "p", "-n", "team")


async def test_only_the_api_server_is_answered_where_it_shows_who_it_is(
    cluster: RealCluster,
) -> None:
    server = cluster.server
    cluster.namespace("kube-system")
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": CALLER, "namespace": NAMESPACE},
        }
    )
    token = cluster.token(CALLER, f"--audience={AUDIENCE}")
    server.webhook_token.write_text(token)
    user = f"system:serviceaccount:{NAMESPACE}:{CALLER}"
    for flags in (
        (f"--webhook-client-ca-file={server.webhook_authority}",),
        (f"--webhook-client-audience={AUDIENCE}", f"--webhook-client-names={user}"),
    ):
        await _answered(cluster, *flags)
        manager = cluster.managers.pop()
        old = quota("zz", where="any")
        status, _ = await asyncio.to_thread(asked, manager, old, old)
        assert status == 401
        manager.close()
        cluster.forget_managers()
