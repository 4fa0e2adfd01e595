"""Webhooks that are configured are asked as the API server asks them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from koord_kube.protocol.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
)
from kubernetes.aio import client

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.kube_api import KubeApi
from tests.support.kube_refusal import Refused
from tests.support_selftest.kube_clients import ApiException, node, pod

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")

Answer = Callable[[Any], Any]
SERVICE = ("koord", "hook", 443)


def allowed(*patch: Any, **more: Any) -> Answer:
    """An answer that lets it pass, changed by these operations."""
    if patch:
        text = base64.b64encode(json.dumps(patch).encode()).decode()
        more |= {"patchType": "JSONPatch", "patch": text}
    return lambda request: {"uid": request["uid"], "allowed": True, **more}


def denied(**status: Any) -> Answer:
    return lambda request: {"uid": request["uid"], "allowed": False, "status": status}


class Hook:
    """A webhook's server, at a port of its own; ``reviews`` are the requests it has had."""

    def __init__(self, certificates: Certificates) -> None:
        self.bundle = base64.b64encode(certificates.authority.read_bytes()).decode()
        self.reviews: list[Any] = []
        self.answers: dict[str, Answer] = {}
        self.status = 200
        self.hangs = False
        self.host, self.port = "127.0.0.1", 0
        self._tls = certificates.server_context()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/{name}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, self.host, 0, ssl_context=self._tls).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.append(review["request"])
        if self.hangs:
            await asyncio.Event().wait()
        answer = self.answers.get(request.match_info["name"], allowed())
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        given = body | {"response": answer(review["request"])}
        return web.json_response(given, status=self.status)

    def direct(self, path: str, **more: Any) -> Any:
        """One that is asked by its URL about new notes with a label ``test`` of its own path."""
        made = self.webhook(path, "notes.example.org", **more)
        url = f"https://{self.host}:{self.port}/{path}"
        made["rules"][0] |= {"apiGroups": ["example.org"], "resources": ["notes"]}
        selected = {"matchLabels": {"test": path}}
        where = {"url": url, "caBundle": self.bundle}
        return made | {"clientConfig": where, "objectSelector": selected}

    def configuration(self, *webhooks: Any, name: str = "hooks") -> Any:
        return {"metadata": {"name": name}, "webhooks": list(webhooks)}

    def webhook(self, path: str = "pods", resource: str = "pods", **more: Any) -> Any:
        group, _, plural = resource.rpartition(".")
        namespace, name, _ = SERVICE
        return {
            "name": f"{path}.koord.sh",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {
                "service": {"name": name, "namespace": namespace, "path": f"/{path}"},
                "caBundle": self.bundle,
            },
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["v1"],
                    "resources": [plural],
                    "operations": more.pop("operations", ["CREATE"]),
                }
            ],
            **more,
        }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder: Path = tmp_path_factory.mktemp("hook")
    return make_certificates(folder, "DNS:hook.koord.svc,IP:127.0.0.1")


@pytest.fixture
async def hook(api: KubeApi, certificates: Certificates) -> AsyncIterator[Hook]:
    made = Hook(certificates)
    runner = await made.start()
    api.services[SERVICE] = ("127.0.0.1", made.port)
    yield made
    await runner.cleanup()


async def created(core: client.CoreV1Api, **more: Any) -> Any:
    return await core.create_namespaced_pod("ns", pod(**more))


async def refused(call: Any) -> ApiException:
    with pytest.raises(ApiException) as raised:
        await call
    return raised.value


def message(error: ApiException) -> str:
    return str(json.loads(error.body)["message"])


LABEL = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}


async def test_a_pod_is_mutated_and_then_validated(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    hook.answers["change"] = allowed(LABEL)
    hook.answers["more"] = allowed({"op": "add", "path": "/metadata/labels/more", "value": "x"})
    api.put(VALIDATING_WEBHOOKS, hook.configuration(hook.webhook("look")))
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook("more"), name="z"))
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook("change"), name="a"))
    made = await created(core)
    assert made.metadata.labels == {"seen": "yes", "more": "x"}
    labels = [one["object"]["metadata"].get("labels") for one in hook.reviews]
    assert labels == [None, {"seen": "yes"}, {"seen": "yes", "more": "x"}]
    asked = hook.reviews[0]
    assert (asked["operation"], asked["namespace"], asked["name"]) == ("CREATE", "ns", "p")
    assert asked["userInfo"]["username"] == "kubernetes-admin"
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["oldObject"] is None


async def test_names_are_made_after_the_webhooks(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook()))
    body = pod()
    body["metadata"] = {"generateName": "web-"}
    made = await core.create_namespaced_pod("ns", body)
    assert made.metadata.name.startswith("web-")
    assert "name" not in hook.reviews[0]


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ({"message": "too much"}, 400, "denied the request: too much"),
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "denied the request: no"),
        ({}, 400, "denied the request without explanation"),
    ],
)
async def test_denials(
    api: KubeApi, hook: Hook, core: client.CoreV1Api, status: Any, code: int, words: str
) -> None:
    api.put(VALIDATING_WEBHOOKS, hook.configuration(hook.webhook("look")))
    hook.answers["look"] = denied(**status)
    error = await refused(created(core))
    assert (error.status, message(error)) == (code, f'admission webhook "look.koord.sh" {words}')
    assert not [key for key in api.objects if key.resource == PODS]


def other_uid(_: Any) -> Any:
    return {"uid": "other", "allowed": True}


def bad_patch(request: Any) -> Any:
    return {"uid": request["uid"], "allowed": True, "patch": "W10="}


class TestOneThatFails:
    @pytest.mark.parametrize("answer", [other_uid, bad_patch, lambda _: None])
    async def test_its_answer_is_none(
        self, api: KubeApi, hook: Hook, core: client.CoreV1Api, answer: Answer
    ) -> None:
        hook.answers["pods"] = answer
        await self.check(api, hook, core)

    async def test_its_status(self, api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
        hook.status = 500
        await self.check(api, hook, core)

    async def test_it_is_late(self, api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
        hook.hangs = True
        await self.check(api, hook, core, timeoutSeconds=1)

    async def test_it_is_not_there(self, api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
        api.services.clear()
        await self.check(api, hook, core)

    async def test_its_certificate_is_of_somebody_else(
        self, api: KubeApi, hook: Hook, core: client.CoreV1Api, tmp_path: Path
    ) -> None:
        other = make_certificates(tmp_path, "DNS:hook.koord.svc")
        hook.bundle = base64.b64encode(other.authority.read_bytes()).decode()
        await self.check(api, hook, core)
        assert hook.reviews == []

    @staticmethod
    async def check(api: KubeApi, hook: Hook, core: client.CoreV1Api, **more: Any) -> None:
        api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook(**more)))
        error = await refused(created(core))
        assert error.status == 500
        assert 'failed calling webhook "pods.koord.sh"' in message(error)
        ignoring = hook.webhook(failurePolicy="Ignore", **more)
        api.put(MUTATING_WEBHOOKS, hook.configuration(ignoring))
        assert (await created(core)).metadata.name == "p"


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"namespaceSelector": {"matchLabels": {"on": "yes"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"on": "no"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"operations": ["*"]}, True),
        ({"resource": "apps.pods"}, False),
        ({"resource": "pods/status"}, False),
        ({"resource": "pods/*"}, False),
        ({"resource": "*/*"}, True),
        ({"resource": "*"}, True),
    ],
)
async def test_who_is_asked(
    api: KubeApi, hook: Hook, core: client.CoreV1Api, more: Any, asked: bool
) -> None:
    api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {"on": "yes"}}})
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook(**more)))
    await created(core, labels={"a": "b"})
    assert len(hook.reviews) == asked


async def test_updates_statuses_and_deletions(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    operations = ["UPDATE", "DELETE"]
    for resource in ("nodes", "nodes/status"):
        path = resource.replace("/", "-")
        webhook = hook.webhook(path, resource, operations=operations)
        api.put(VALIDATING_WEBHOOKS, hook.configuration(webhook, name=path))
    api.put(NODES, node("n1"))
    await core.patch_node("n1", {"metadata": {"labels": {"a": "b"}}})
    await core.patch_node_status("n1", {"status": {"allocatable": {"cpu": "1"}}})
    await core.delete_node("n1")
    seen = [(one["operation"], one.get("subResource")) for one in hook.reviews]
    assert seen == [("UPDATE", None), ("UPDATE", "status"), ("DELETE", None)]
    assert hook.reviews[0]["oldObject"]["metadata"]["labels"] == {}
    assert (hook.reviews[2]["object"], hook.reviews[2]["oldObject"]["kind"]) == (None, "Node")


async def test_evictions_are_asked_about(api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
    api.put(VALIDATING_WEBHOOKS, hook.configuration(hook.webhook("e", "pods/eviction")))
    await created(core)
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
    await core.create_namespaced_pod_eviction("p", "ns", body)
    [asked] = hook.reviews
    assert (asked["kind"]["kind"], asked["subResource"]) == ("Eviction", "eviction")


async def test_a_dry_run_says_so(api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook()))
    await core.create_namespaced_pod("ns", pod(), dry_run="All")
    assert [one["dryRun"] for one in hook.reviews] == [True]
    assert not [key for key in api.objects if key.resource == PODS]


async def test_warnings_are_told(api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
    hook.answers["pods"] = allowed(warnings=["old label"])
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook()))
    made = await core.create_namespaced_pod_with_http_info("ns", pod())
    assert made.headers["Warning"] == '299 - "old label"'


async def test_a_class_and_its_priority_come_together(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    """The Priority plugin looks at what the webhooks have made of a pod."""
    api.put(PRIORITY_CLASSES, {"metadata": {"name": "koord-batch"}, "value": 5000})
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook()))
    named = {"op": "add", "path": "/spec/priorityClassName", "value": "koord-batch"}
    hook.answers["pods"] = allowed(named)
    assert (await refused(created(core))).status == 403
    hook.answers["pods"] = allowed(named, {"op": "add", "path": "/spec/priority", "value": 5000})
    assert (await created(core)).spec.priority == 5000


async def test_somebody_was_faster_meanwhile(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    api.put(VALIDATING_WEBHOOKS, hook.configuration(hook.webhook("n", "nodes", operations=["*"])))
    made = api.put(NODES, node("n1"))
    labels = iter("ab")

    def meanwhile(request: Any) -> Any:
        label = next(labels, "")
        if label:
            api.put(NODES, node("n1", **{label: "1"}))
        return allowed()(request)

    hook.answers["n"] = meanwhile
    await core.patch_node("n1", {"metadata": {"labels": {"mine": "1"}}})
    assert api.get(NODES, "n1")["metadata"]["labels"] == {"b": "1", "mine": "1"}
    assert len(hook.reviews) == 3, "the patch is applied anew to what there is"
    assert (await refused(core.replace_node("n1", made))).status == 409


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "short"},
        {"admissionReviewVersions": ["v2"]},
        {"sideEffects": "Some"},
        {"timeoutSeconds": 31},
        {"failurePolicy": "Maybe"},
        {"clientConfig": {"url": "http://127.0.0.1/"}},
        {"clientConfig": {}},
        {"clientConfig": {"url": "https://127.0.0.1/", "caBundle": "bm8="}},
        {"objectSelector": {"matchLabels": {"a": 1}}},
        {"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]},
    ],
)
async def test_configurations_that_are_wrong(api: KubeApi, hook: Hook, wrong: Any) -> None:
    with pytest.raises(Refused) as raised:
        api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook() | wrong))
    assert raised.value.status == 422


async def test_what_a_request_may_not_change_its_webhooks_may_not(
    api: KubeApi, hook: Hook, core: client.CoreV1Api
) -> None:
    api.put(MUTATING_WEBHOOKS, hook.configuration(hook.webhook("n", "nodes", operations=["*"])))
    hook.answers["n"] = allowed({"op": "add", "path": "/status", "value": {"phase": "x"}}, LABEL)
    api.put(NODES, node("n1"))
    await core.patch_node("n1", {"spec": {"unschedulable": True}})
    kept = api.get(NODES, "n1")
    assert kept["metadata"]["labels"] == {"seen": "yes"}
    assert "status" not in kept


async def test_a_url_of_its_own(api: KubeApi, hook: Hook, core: client.CoreV1Api) -> None:
    url = f"https://127.0.0.1:{hook.port}/url"
    direct = hook.webhook(clientConfig={"url": url, "caBundle": hook.bundle})
    api.put(MUTATING_WEBHOOKS, hook.configuration(direct))
    hook.answers["url"] = allowed(LABEL)
    assert (await created(core)).metadata.labels == {"seen": "yes"}


async def test_its_own_configuration_can_always_be_changed(
    api: KubeApi, hook: Hook, api_client: client.ApiClient
) -> None:
    api.put(VALIDATING_WEBHOOKS, hook.configuration(hook.webhook("all", "*.*", operations=["*"])))
    api.services.clear()
    webhooks = client.AdmissionregistrationV1Api(api_client)
    await webhooks.delete_validating_webhook_configuration("hooks")
    assert api.objects == {}
