from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.protocol.api import ApiError, ConflictError, GoneError, NotFoundError, WatchEvent
from koord_kube.protocol.request import ITEMS, MOST_ASKED, OBJECT, Request
from koord_kube.protocol.resources import LEASES, NODE_METRICS

REQUEST = Request("GET", NODE_METRICS, "n1")


def status(code: int, message: str = "so it is", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("asking", "path", "text"),
    [
        (REQUEST, "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1", "nodemetrics n1"),
        (
            Request("PATCH", NODE_METRICS, "n1", subresource="status"),
            "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1/status",
            "nodemetrics n1/status",
        ),
        (
            Request("GET", LEASES, "", "kube-node-lease", query={"fieldSelector": "a=b"}),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            "leases kube-node-lease a=b",
        ),
        (
            Request("GET", LEASES, query={"fieldSelector": "a=b", "labelSelector": "c,!d"}),
            "/apis/coordination.k8s.io/v1/leases",
            "leases a=b c,!d",
        ),
    ],
)
def test_what_it_is_about(asking: Request, path: str, text: str) -> None:
    assert (asking.path, str(asking)) == (path, text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(404, NotFoundError), (409, ConflictError), (410, GoneError), (403, ApiError)],
)
def test_refusals_and_error_events_are_the_same(code: int, kind: type[ApiError]) -> None:
    error = REQUEST.error_from(code, {}, status(code))
    assert (type(error), error.status) == (kind, code)
    assert str(error) == f"nodemetrics n1: {code} so it is"
    line = json.dumps({"type": "ERROR", "object": json.loads(status(code))}).encode()
    with pytest.raises(kind) as found:
        REQUEST.watch_event(line)
    assert (found.value.status, str(found.value)) == (code, str(error))


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "3"}, {}, 3.0),
        ({}, {"retryAfterSeconds": 4}, 4.0),
        ({"Retry-After": "Fri, 20 Nov 2026 22:00:00 GMT"}, {"retryAfterSeconds": 4}, 4.0),
        ({"Retry-After": "-1"}, {}, 0.0),
        ({"Retry-After": "²"}, {"retryAfterSeconds": "x"}, 0.0),
        ({"Retry-After": "9" * 400}, {}, MOST_ASKED),
        ({}, {"retryAfterSeconds": 1e9}, MOST_ASKED),
        ({}, {"retryAfterSeconds": -5}, 0.0),
        ({}, {}, 0.0),
    ],
)
def test_when_to_come_again(headers: Any, details: Any, seconds: float) -> None:
    error = REQUEST.error_from(429, headers, status(429, details=details))
    assert error.retry_after == seconds


def test_a_kind_that_is_not_installed() -> None:
    error = REQUEST.error_from(404, {}, b"404 page not found\n")
    assert str(error) == (
        "nodemetrics n1: 404 no such kind in slo.koordinator.sh/v1alpha1; is its CRD installed?"
    )


@pytest.mark.parametrize("said", [b"<html>\noops</html>", b"[]", b"\xff\xfe", b'{"code": "x"}'])
def test_a_refusal_in_other_words(said: bytes) -> None:
    error = REQUEST.error_from(502, {}, said)
    assert error.status == 502
    assert "\n" not in str(error)


def test_long_words_are_cut_and_secrets_left_out() -> None:
    error = REQUEST.error_from(403, {}, status(403, "token s3cret\n" + "x" * 1000), "s3cret")
    assert str(error).startswith("nodemetrics n1: 403 token *** x")
    assert len(str(error)) < 400


def test_changes() -> None:
    change = REQUEST.watch_event(b'{"type":"ADDED","object":{"a": 1}}')
    assert change == WatchEvent("ADDED", b'{"a": 1}')
    assert change.object == {"a": 1}


def test_pages() -> None:
    said = b'{"metadata": {"resourceVersion": "7", "continue": "c"}, "items": [{"a": 1}, {}]}'
    found = REQUEST.decode(ITEMS, said)
    assert (found.metadata.version, found.metadata.more) == ("7", "c")
    assert [bytes(one) for one in found.items or []] == [b'{"a": 1}', b"{}"]


@pytest.mark.parametrize("said", [b"", b"[1]", b'{"items": 3}', b"\xff"])
def test_an_answer_that_is_none(said: bytes) -> None:
    for decode in (lambda: REQUEST.decode(ITEMS, said), lambda: REQUEST.watch_event(said)):
        with pytest.raises(ApiError, match="nodemetrics n1: the answer is not the API's"):
            decode()


def test_a_good_answer() -> None:
    assert REQUEST.decode(OBJECT, b'{"a": 1}') == {"a": 1}


def test_what_a_server_gives_as_its_cause() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "web needs s3cret pods"}]
    said = json.dumps({"message": "no", "code": 429, "details": {"causes": causes}}).encode()
    error = REQUEST.error_from(429, {}, said, "s3cret")
    assert (str(error), error.cause) == (
        "nodemetrics n1: 429 no (web needs *** pods)", "DisruptionBudget",
    )  # fmt: skip


@pytest.mark.parametrize("causes", [None, [], ["x"], {"a": "b"}, [{}]])
def test_a_cause_that_is_none(causes: Any) -> None:
    said = json.dumps({"message": "no", "code": 429, "details": {"causes": causes}}).encode()
    error = REQUEST.error_from(429, {}, said)
    assert (str(error), error.cause) == ("nodemetrics n1: 429 no", "")


def test_what_a_write_came_to() -> None:
    assert REQUEST.written_object(b'{"kind": "Status", "status": "Success"}')["status"] == "Success"
    assert REQUEST.written_object(b'{"kind": "Node", "status": {"a": 1}}')["kind"] == "Node"


def test_a_failure_in_the_body_of_a_good_answer() -> None:
    said = b'{"kind": "Status", "status": "Failure", "message": "two budgets", "code": 500}'
    with pytest.raises(ApiError, match="nodemetrics n1: 500 two budgets") as found:
        REQUEST.written_object(said)
    assert found.value.status == 500
