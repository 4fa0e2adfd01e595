from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.protocol.api import ApiError, ConflictError, GoneError, NotFoundError, WatchEvent
from koord_kube.protocol.request import ITEMS, MOST_ASKED, Request
from koord_kube.protocol.resources import LEASES, NODE_METRICS

REQUEST = Request("GET", NODE_METRICS, "n1")


def status(code: int, message: str = "so it is", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message, **more}).encode()


@pytest.mark.parametrize(
    ("request_", "path", "text"),
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
def test_what_it_is_about(request_: Request, path: str, text: str) -> None:
    assert (request_.path, str(request_)) == (path, text)


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


_CAUSES = {"causes": [{"reason": "DisruptionBudget", "message": "web needs s3cret pods"}]}


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (404, b"404 page not found\n",
         ("no such kind in slo.koordinator.sh/v1alpha1; is its CRD installed? "
         "(koordctl crds install)")),
        (502, b"<html>\noops</html>", "<html> oops</html>"),
        (502, b"[]", "[]"),
        (502, b"\xff\xfe", "\ufffd\ufffd"),
        (502, b'{"code": "x"}', '{"code": "x"}'),
        (403, status(403, "token s3cret\n" + "x" * 1000), "token *** " + "x" * 290),
        (429, status(429, "no", details=_CAUSES), "no (web needs *** pods)"),
        *((429, status(429, "no", details={"causes": wrong}), "no")
          for wrong in (None, [], ["x"], {"a": "b"}, [{}])),
    ],
)  # fmt: skip
def test_messages(code: int, body: bytes, message: str) -> None:
    error = REQUEST.error_from(code, {}, body, "s3cret")
    assert str(error) == f"nodemetrics n1: {code} {message}"
    assert (error.status, error.cause) == (code, "DisruptionBudget" if "needs" in message else "")


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
def test_an_invalid_answer(said: bytes) -> None:
    for decode in (lambda: REQUEST.decode(ITEMS, said), lambda: REQUEST.watch_event(said)):
        with pytest.raises(ApiError, match="nodemetrics n1: the answer is not the API's"):
            decode()


def test_the_answer_to_a_write() -> None:
    assert REQUEST.written_object(b'{"kind": "Status", "status": "Success"}')["status"] == "Success"
    assert REQUEST.written_object(b'{"kind": "Node", "status": {"a": 1}}')["kind"] == "Node"
    said = b'{"kind": "Status", "status": "Failure", "message": "two budgets", "code": 500}'
    with pytest.raises(ApiError, match="nodemetrics n1: 500 two budgets") as found:
        REQUEST.written_object(said)
    assert found.value.status == 500
