from __future__ import annotations

import base64
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_serving.admission.core import reviews
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from koord_serving.admission.core.reviews import AdmissionReviewError

from tests.support.serving import review

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=5)


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def answered(admission: AdmissionRequest, verdict: AdmissionResponse) -> Any:
    document = json.loads(reviews.answer(admission, verdict))
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert document["kind"] == "AdmissionReview"
    return document["response"]


def test_a_question_as_api_servers_ask_it() -> None:
    old = {"metadata": {"name": "web-1", "labels": {"a": "b"}}}
    admission = reviews.read(
        encoded(review(operation="UPDATE", oldObject=old, dryRun=True, subResource="status"))
    )
    assert admission == AdmissionRequest(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        operation=AdmissionOperation.UPDATE,
        resource="pods",
        subresource="status",
        namespace="shop",
        name="web-1",
        object={"kind": "Pod", "metadata": {"name": "web-1"}},
        old=old,
        user="system:serviceaccount:shop:deployer",
        dry_run=True,
    )


def test_a_deletion_has_no_object() -> None:
    document = review(operation="DELETE", oldObject={"metadata": {"name": "web-1"}})
    document["request"]["object"] = None
    admission = reviews.read(encoded(document))
    assert (admission.object, admission.name) == ({}, "web-1")


@pytest.mark.parametrize(
    ("meta", "name"),
    [({"generateName": "web-"}, "web-"), ({"name": "web-7"}, "web-7"), ([], ""), ({"name": 1}, "")],
)
def test_an_object_without_a_name_yet_is_called_by_its_own_words(meta: Any, name: str) -> None:
    assert reviews.read(encoded(review({"metadata": meta}, name=""))).name == name


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"kind":"AdmissionReview"', "not valid JSON"),
        (b"[]", "malformed: Expected `object`, got `array`"),
        (b"{}", 'this is "" of ""; expected AdmissionReview of admission.k8s.io/v1'),
        (
            encoded({**review(), "apiVersion": "admission.k8s.io/v1beta1"}),
            'this is "AdmissionReview" of "admission.k8s.io/v1beta1"; expected',
        ),
        (encoded({**review(), "kind": "Pod"}), 'this is "Pod" of'),
        (
            encoded({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
            "has no request",
        ),
        (encoded(review(operation="PATCH")), "operation is none of CREATE, UPDATE, DELETE"),
        (encoded(review(uid=7)), "Expected `str`, got `int` - at `$.uid`"),
        (encoded(review("a secret")), "Expected `object | null`, got `str` - at `$.object`"),
        (b'{"request":' + b"[" * 100_000, "nested too deep"),
        (encoded(review()).replace(b'"shop"', b'"\xff\xff"'), "not valid JSON"),
    ],
)
def test_what_is_no_question_is_refused_in_a_line(body: bytes, said: str) -> None:
    with pytest.raises(AdmissionReviewError) as caught:
        reviews.read(body)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.status == 400


def test_a_review_may_not_be_longer_than_bytes_allow() -> None:
    with pytest.raises(AdmissionReviewError) as caught:
        reviews.read(b" " * (reviews.MOST_BYTES + 1))
    assert caught.value.status == 413


PLAIN = {"kind": "Pod", "metadata": {"name": "web-1"}}


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (ADMITTED, {"allowed": True}),
        (AdmissionResponse(object=PLAIN), {"allowed": True}),
        # A refusal has its code, one line, and no patch.
        (
            AdmissionResponse(
                refusal="no\n such thing", code=422, object={"a": 1}, warnings=("old",)
            ),
            {
                "allowed": False,
                "status": {"code": 422, "message": "no such thing"},
                "warnings": ["old"],
            },
        ),
    ],
)
def test_answers_without_a_patch(verdict: AdmissionResponse, expected: dict[str, Any]) -> None:
    admission = reviews.read(encoded(review()))
    assert answered(admission, verdict) == {"uid": admission.uid, **expected}
    assert not reviews.changes(admission, verdict)


def test_warnings_are_lines_of_bounded_length_and_number() -> None:
    admission = reviews.read(encoded(review()))
    said = answered(admission, AdmissionResponse(warnings=("a\nb", "c" * 1000, *["d"] * 1000)))
    assert said["warnings"][0] == "a b"
    assert max(map(len, said["warnings"])) == 256
    assert sum(map(len, said["warnings"])) <= 4096


@given(objects, objects)
def test_the_patch_makes_of_the_object_what_the_verdict_says(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    admission = reviews.read(encoded(review(before)))
    assert admission.object == before
    verdict = AdmissionResponse(object=after)
    said = answered(admission, verdict)
    if not reviews.changes(admission, verdict):
        assert "patch" not in said
        return
    assert said["patchType"] == "JSONPatch"
    steps = json.loads(base64.b64decode(said["patch"], validate=True))
    assert jsonpatch.apply_patch(before, steps) == after


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        reviews.read(body)
    except AdmissionReviewError:
        pass


@given(
    st.sampled_from(sorted(review()["request"])),
    values,
    st.sampled_from(["apiVersion", "kind", "request"]),
    values,
    st.booleans(),
)
def test_any_value_in_any_field_is_read_or_refused(
    field: str, value: Any, outer: str, other: Any, also: bool
) -> None:
    document = review(**{field: value})
    if also:
        document[outer] = other
    try:
        admission = reviews.read(encoded(document))
    except AdmissionReviewError:
        return
    assert answered(admission, ADMITTED) == {"uid": admission.uid, "allowed": True}
