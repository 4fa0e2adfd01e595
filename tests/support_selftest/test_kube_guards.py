"""Who may what, and whom the server asks before it writes: as the double and a real server do.

Whoever gives other fixtures than the double's holds another server to it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import (
    ACCESS_REVIEWS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    TOKEN_REVIEWS,
    VALIDATING_WEBHOOKS,
)

from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.kube_access import service_account
from tests.support.kube_api import KubeApi
from tests.support.kube_asking import Answer, Asking
from tests.support.processes import PATIENCE
from tests.support_selftest.notes import NOTES, note
from tests.support_selftest.test_kube_admission import (
    LABEL,
    Hook,
    allowed,
    bad_patch,
    denied,
    other_uid,
)
from tests.support_selftest.test_kube_admission import Answer as Answering

__all__ = ["TestHooks", "TestReviews", "TestStrangers"]

STRANGER = "system:serviceaccount:default:stranger"


@pytest.fixture
def stranger(api: KubeApi) -> str:
    """The token of a service account that may do nothing."""
    api.access.identities["theirs"] = service_account("stranger")
    api.access.enforced = True
    return "theirs"


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    """A webhook's server, where the API server finds it."""
    made = Hook(make_certificates(tmp_path))
    runner = await made.start()
    yield made
    await runner.cleanup()


class TestStrangers:
    @pytest.mark.parametrize(
        ("method", "path", "verb", "about", "where"),
        [
            ("GET", NODES.path(), "list", "nodes", "nodes"),
            ("GET", NODES.path("n1"), "get", 'nodes "n1"', "nodes"),
            ("PATCH", NODES.path("n1", "", "status"), "patch", 'nodes "n1"', "nodes/status"),
            ("POST", NOTES.path(), "create", "notes.example.org", "notes"),
            (
                "GET",
                LEASES.path("l", "default"),
                "get",
                'leases.coordination.k8s.io "l"',
                "leases",
            ),
            ("DELETE", PODS.path("", "default"), "deletecollection", "pods", "pods"),
        ],
    )
    async def test_what_they_are_told(
        self, ask: Asking, stranger: str, method: str, path: str, verb: str, about: str, where: str
    ) -> None:
        body = None if method in ("GET", "DELETE") else {}
        refused = await ask(method, path, body, authorization=f"Bearer {stranger}")
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        scope = 'in the namespace "default"' if "default" in path else "at the cluster scope"
        assert refused.refusal == (403, "Forbidden")
        assert refused.message == (
            f'{about} is forbidden: User "{STRANGER}" cannot {verb} resource "{where}" '
            f'in API group "{group}" {scope}'
        )


class TestReviews:
    async def test_tokens(self, ask: Asking, stranger: str) -> None:
        async def status(token: str, *audiences: str) -> Any:
            spec = {"token": token, "audiences": [*audiences]}
            kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
            made = await ask("POST", TOKEN_REVIEWS.path(), {**kind, "spec": spec})
            return made.said["status"] if made.status == 201 else made.refusal

        found = await status(stranger)
        assert found["authenticated"] is True
        assert found["user"]["username"] == STRANGER
        assert "system:serviceaccounts:default" in found["user"]["groups"]
        for other in (await status("nonsense"), await status(stranger, "others")):
            assert other.keys() == {"user", "error"}
            assert other["user"] == {}
        assert await status("") == (400, "BadRequest")

    async def test_access(self, ask: Asking) -> None:
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        about = {"resourceAttributes": {"verb": "get", "resource": "nodes"}}

        async def reviewed(**spec: Any) -> Answer:
            return await ask("POST", ACCESS_REVIEWS.path(), {**kind, "spec": spec})

        assert (await reviewed(user="a", **about)).said["status"]["allowed"] is False
        masters = {"user": "a", "groups": ["system:masters"]}
        assert (await reviewed(**masters, **about)).said["status"]["allowed"] is True
        assert (await reviewed(user="a")).refusal == (422, "Invalid")
        assert (await reviewed(**about)).refusal == (422, "Invalid")
        assert (await ask("GET", ACCESS_REVIEWS.path())).refusal == (405, "MethodNotAllowed")


class Hooked:
    """A webhook that is asked about the notes that ``make`` makes."""

    def __init__(self, ask: Asking, hook: Hook, path: str) -> None:
        self.ask, self.hook, self.path = ask, hook, path

    async def make(self, answer: Answering | None = None, **more: Any) -> Answer:
        self.hook.answers = {self.path: answer or allowed()}
        self.hook.reviews.clear()
        given = note(metadata={"labels": {"test": self.path}}, **more)
        return await self.ask("POST", NOTES.path(), given, dryRun="All")


async def hooked(ask: Asking, hook: Hook, kind: Any = MUTATING_WEBHOOKS, **more: Any) -> Hooked:
    """Once the server has noticed that it is to be asked."""
    path = uuid.uuid4().hex[:8]
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind.kind}
    given = head | hook.configuration(hook.direct(path, **more), name=path)
    assert (await ask("POST", kind.path(), given)).status == 201
    made = Hooked(ask, hook, path)
    async with asyncio.timeout(PATIENCE):
        while not hook.reviews:
            await made.make()
    return made


@pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")
class TestHooks:
    async def test_what_they_are_asked(self, ask: Asking, hook: Hook) -> None:
        made = await hooked(ask, hook)
        await made.make(spec={"a": 1})
        [asked] = hook.reviews
        assert asked["operation"] == "CREATE"
        assert (asked["name"], asked["dryRun"], asked["oldObject"]) == ("n1", True, None)
        assert asked["resource"] == {"group": "example.org", "version": "v1", "resource": "notes"}
        assert asked["kind"] == {"group": "example.org", "version": "v1", "kind": "Note"}
        assert "system:masters" in asked["userInfo"]["groups"]
        options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}
        assert asked["options"] == options
        assert asked["object"]["spec"] == {"a": 1}
        assert "uid" not in asked["object"]["metadata"]

    @pytest.mark.parametrize(
        ("status", "refusal", "words"),
        [
            ({"message": "too much"}, (400, ""), "denied the request: too much"),
            (
                {"message": "no", "code": 403, "reason": "Forbidden"},
                (403, "Forbidden"),
                "denied the request: no",
            ),
            ({"message": "x", "code": 200}, (400, ""), "denied the request: x"),
            ({}, (400, ""), "denied the request without explanation"),
        ],
    )
    async def test_denials(
        self, ask: Asking, hook: Hook, status: Any, refusal: Any, words: str
    ) -> None:
        made = await hooked(ask, hook, VALIDATING_WEBHOOKS)
        refused = await made.make(denied(**status))
        assert refused.refusal == refusal
        assert refused.message == f'admission webhook "{made.path}.koord.sh" {words}'

    async def test_patches_and_warnings(self, ask: Asking, hook: Hook) -> None:
        made = await hooked(ask, hook)
        done = await made.make(allowed(LABEL, warnings=["old label"]))
        assert done.said["metadata"]["labels"] == {"seen": "yes"}
        assert done.headers["Warning"] == '299 - "old label"'

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    async def test_answers_that_are_none(self, ask: Asking, hook: Hook, policy: str) -> None:
        def no_patch(request: Any) -> Any:
            answer = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
            return answer | {"patch": "bm8="}

        made = await hooked(ask, hook, failurePolicy=policy)
        for answer, words in (
            (other_uid, "received invalid webhook response: expected response.uid="),
            (bad_patch, "received invalid webhook response: webhook returned response.patch but"),
            (lambda _: None, "received invalid webhook response: webhook response was absent"),
            (no_patch, "received undecodable patch in webhook response: "),
        ):
            self.check(await made.make(answer), made.path, policy, words)
        hook.status = 500
        self.check(await made.make(), made.path, policy, "failed to call webhook: ")

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    async def test_one_that_is_late(self, ask: Asking, hook: Hook, policy: str) -> None:
        made = await hooked(ask, hook, failurePolicy=policy, timeoutSeconds=1)
        hook.hangs = True
        refused = await made.make()
        self.check(refused, made.path, policy, "failed to call webhook: ")
        if policy == "Fail":
            assert refused.message.endswith("context deadline exceeded")

    @staticmethod
    def check(answer: Answer, path: str, policy: str, words: str) -> None:
        if policy == "Ignore":
            assert answer.status == 201, answer
            return
        assert answer.refusal == (500, "InternalError")
        why = f'failed calling webhook "{path}.koord.sh": {words}'
        assert answer.message.startswith(f"Internal error occurred: {why}")
        [cause] = answer.said["details"]["causes"]
        assert cause == {"message": answer.message.removeprefix("Internal error occurred: ")}

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    async def test_patches_that_do_not_fit_are_nobodys_failure(
        self, ask: Asking, hook: Hook, policy: str
    ) -> None:
        made = await hooked(ask, hook, failurePolicy=policy)
        refused = await made.make(allowed({"op": "remove", "path": "/spec/x"}))
        assert refused.refusal == (500, "InternalError")
        assert "failed calling webhook" not in json.dumps(refused.said)
