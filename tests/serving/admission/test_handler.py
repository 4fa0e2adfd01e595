from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import ssl
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.webhooks.cluster_view import ClusterView
from koord_manager.webhooks.table import TABLE
from koord_serving.admission.callers import WebhookCallers
from koord_serving.admission.core import reviews
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from koord_serving.admission.core.caller_rules import CallerRules
from koord_serving.admission.core.reviews import AdmissionReviewError
from koord_serving.admission.handler import AdmissionHandler, AdmissionLimits
from koord_serving.admission.metrics import WebhookMetrics
from prometheus_client import CollectorRegistry

from tests.support.processes import PATIENCE
from tests.support.serving import NAME, Serving, review, serving, trusting


def label(admission: AdmissionRequest, view: ClusterView) -> AdmissionResponse:
    """Adds a label that the view has; refuses what is called "bad"; fails for "worse"."""
    if admission.name == "bad":
        return AdmissionResponse(refusal="it is bad", code=400)
    if admission.name == "worse":
        raise KeyError(admission.object["data"])
    meta = {**admission.object["metadata"], "labels": dict(view.config)}
    return AdmissionResponse(object={**admission.object, "metadata": meta})


WEBHOOKS = {"/mutate-pod": label}
VIEW = ClusterView(config={"qos": "BE"})


async def raw(running: Serving, sent: bytes, *, more: bytes = b"") -> bytes:
    """What comes back for these very bytes, until the server closes or says no more."""
    context = trusting(running.data["ca-cert.pem"])
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", running.server.port, ssl=context, server_hostname=NAME
    )
    writer.write(sent)
    try:
        await writer.drain()
        if more:
            return await reader.read(1 << 16)
        writer.write_eof() if writer.can_write_eof() else None
        async with asyncio.timeout(0.2):
            return await reader.read(1 << 16)
    except (TimeoutError, ConnectionError, ssl.SSLError):
        return b""
    finally:
        writer.close()


async def test_a_pod_is_changed_or_refused_and_counted() -> None:
    async with serving(WEBHOOKS, view=VIEW) as running:
        status, answer = await running.ask("/mutate-pod", review())
        assert (status, answer["response"]["allowed"]) == (200, True)
        assert answer["response"]["uid"] == review()["request"]["uid"]
        assert "patch" in answer["response"]
        status, answer = await running.ask("/mutate-pod", review(name="bad"))
        assert status == 200
        assert answer["response"]["status"] == {"code": 400, "message": "it is bad"}
        for outcome in ("changed", "refused"):
            assert running.count("/mutate-pod", "CREATE", outcome) == 1
        labels = {"webhook": "/mutate-pod"}
        count = running.registry.get_sample_value("koord_manager_webhook_seconds_count", labels)
        assert count == 2
        assert running.registry.get_sample_value("koord_manager_webhook_in_flight") == 0
        assert (await running.ask("/mutate-pod/", review()))[0] == 404
        async with running.session.get(running.url("/mutate-pod")) as response:
            assert response.status == 405


async def test_a_webhook_that_fails_costs_one_request_and_tells_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(WEBHOOKS, view=VIEW) as running:
        body = review({"metadata": {"name": "worse"}, "data": "my-password"}, name="worse")
        status, answer = await running.ask("/mutate-pod", body)
        assert (status, answer) == (500, "the webhook failed: KeyError\n")
        assert running.count("/mutate-pod", "CREATE", "failed") == 1
        status, _ = await running.ask("/mutate-pod", review())
        assert status == 200
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    fields = record.__dict__["fields"]
    assert fields["object"] == "shop/worse"
    assert fields["resource"] == "pods"
    assert fields["at"].startswith("test_handler.py:")
    assert "my-password" not in str(record.__dict__)


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"{", {}, 400, "the review is not valid JSON"),
        (b"", {}, 400, "the review is not valid JSON"),
        # JSON can say what no UTF-8 can: half a letter.
        (json.dumps(review()).replace("web-1", "\\ud800").encode(), {}, 400, "is not valid JSON"),
        (json.dumps({**review(), "apiVersion": "v2"}).encode(), {}, 400, 'of "v2"; expected'),
        (b"{}", {"Content-Type": "text/yaml"}, 415, "expected application/json"),
        (b" " * ((8 << 20) + 1), {}, 413, "longer than 8388608 bytes"),
        (b'{"request":' + b"[" * 1_000_000, {}, 400, "nested too deep"),
        # A page of zeros a few kilobytes long.
        (gzip.compress(b" " * (20 << 20)), {"Content-Encoding": "gzip"}, 413, "longer than"),
        (b"no gzip", {"Content-Encoding": "gzip"}, 400, ""),
    ],
)
async def test_what_is_no_question_is_an_error_of_the_client(
    body: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    async with serving(WEBHOOKS) as running:
        found, answer = await running.ask("/mutate-pod", body, headers=headers)
        assert (found, said in answer) == (status, True), answer
        assert (await running.ask("/mutate-pod", review()))[0] == 200


@pytest.mark.parametrize(
    "body", [b"ZZZ\r\n", b"5\r\n{}\r\nxx", b"ffffffffffffffffff\r\n{", b"2\r\n{}\r\n0\r\n\r\n"]
)
async def test_a_body_in_broken_pieces_is_an_error_of_the_client(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(WEBHOOKS) as running:
        head = b"POST /mutate-pod HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        said = await raw(running, head + b"Transfer-Encoding: chunked\r\n\r\n" + body, more=b"wait")
        assert said.partition(b" ")[2].startswith(b"400 "), said
        assert (await running.ask("/mutate-pod", review()))[0] == 200
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_body_that_dribbles_is_not_waited_for() -> None:
    async with serving(WEBHOOKS, limits=AdmissionLimits(body=0.2)) as running:
        head = b"POST /mutate-pod HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        said = await raw(running, head + b"Content-Length: 1000\r\n\r\n{", more=b"wait")
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 0.2 s" in said
        assert running.count("/mutate-pod", "", "late") == 1
        assert (await running.ask("/mutate-pod", review()))[0] == 200


async def test_a_client_that_leaves_in_the_middle_is_counted() -> None:
    async with serving(WEBHOOKS) as running:
        head = b"POST /mutate-pod HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        await raw(running, head + b"Content-Length: 1000\r\n\r\n{")
        async with asyncio.timeout(PATIENCE):
            while not running.count("/mutate-pod", "", "left"):
                await asyncio.sleep(0.01)
        assert running.registry.get_sample_value("koord_manager_webhook_in_flight") == 0


async def test_more_than_there_is_room_for_is_reported_at_once() -> None:
    async with serving(WEBHOOKS, limits=AdmissionLimits(held_bytes=10_000)) as running:
        big = review({"metadata": {}, "data": "x" * 20_000})
        assert (await running.ask("/mutate-pod", big))[0] == 503
        assert (await running.ask("/mutate-pod", review()))[0] == 200
    async with serving(WEBHOOKS, limits=AdmissionLimits(requests=0)) as running:
        assert (await running.ask("/mutate-pod", review()))[0] == 503
        assert running.count("/mutate-pod", "", "busy") == 1


async def test_nothing_is_begun_that_nobody_waits_for() -> None:
    asked: list[AdmissionRequest] = []

    def ask(admission: AdmissionRequest, _: ClusterView) -> AdmissionResponse:
        asked.append(admission)
        return AdmissionResponse()

    async with serving({"/ask": ask}, limits=AdmissionLimits(answer=-1)) as running:
        assert (await running.ask("/ask", review()))[0] == 504
        assert running.count("/ask", "CREATE", "late") == 1
    assert asked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "BE", "1Gi", "-1", "100m", "koord-batch", "{}", "a/b"]) | st.text(),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(
        ["metadata", "spec", "labels", "containers", "resources", "requests", "cpu", "a"]
    ), one, max_size=3),
    max_leaves=8,
)  # fmt: skip
POD = {
    "metadata": {
        "name": "a",
        "labels": {"koordinator.sh/qosClass": "BE"},
        "annotations": {"a": "b"},
    },
    "spec": {
        "priority": 5500,
        "priorityClassName": "koord-batch",
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 1}}, "env": []}
        ],
    },
    "status": {"allocatable": {"cpu": "4"}},
    "data": {"colocation-config": "{}"},
}


def places(given: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a document something could be put."""
    inner = given.items() if isinstance(given, dict) else enumerate(given)
    found = [path]
    for name, one in inner if isinstance(given, dict | list) else ():
        found += places(one, (*path, name)) if isinstance(one, dict | list) else [(*path, name)]
    return found


def put(given: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    made = given.copy()
    made[path[0]] = put(given[path[0]], path[1:], value)
    return made


def test_no_object_makes_a_webhook_of_ours_fail() -> None:
    """Whatever is put wherever in an object: it is answered, and by an answer."""
    metrics = WebhookMetrics(CollectorRegistry())
    profile = {"metadata": {"name": "a"}, "spec": {"qosClass": "BE", "labels": {"a": "b"}}}
    view = ClusterView(profiles={"a": profile})
    answering = AdmissionHandler(
        lambda: view, metrics, AdmissionLimits(), WebhookCallers(CallerRules(), None)
    )

    @given(
        st.sampled_from(TABLE),
        st.sampled_from(list(AdmissionOperation)),
        st.lists(st.tuples(st.sampled_from(places(POD)), JSON), max_size=3),
        st.booleans(),
    )
    def ask(row: Any, operation: AdmissionOperation, changes: Any, also_old: bool) -> None:
        changed: Any = POD
        for path, value in changes:
            try:
                changed = put(changed, path, value)
            except (KeyError, IndexError, TypeError, AttributeError):
                continue  # that place is gone
        body = json.dumps(
            review(
                changed,
                operation=operation,
                oldObject=changed if also_old else POD,
                resource={"group": row.group, "version": "v1", "resource": row.resource},
            )
        ).encode()
        try:
            admission = reviews.read(body)
        except AdmissionReviewError:
            assert not isinstance(changed, dict)
            return
        answer, _ = asyncio.run(answering._decide(row.path, admission, row.handler))
        said = json.loads(answer)["response"]
        if "patch" in said:
            steps = json.loads(base64.b64decode(said["patch"]))
            assert isinstance(jsonpatch.apply_patch(admission.object, steps), dict)

    ask()
