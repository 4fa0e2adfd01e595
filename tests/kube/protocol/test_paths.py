"""Nothing that a user wrote makes a request about something else."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.api import InvalidRequestError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES, PODS

HOSTILE = ["../nodes?x=", "..", ".", "../b", "a%2fb", "%2e%2e", "x/../../../secrets"]
NAMES = st.text(alphabet=st.sampled_from("ab./%?#&= \n")) | st.text()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["name", "namespace", "subresource"])
def test_a_name_that_is_more_than_a_segment_is_not_sent(name: str, place: str) -> None:
    given_names: dict[str, Any] = {"name": "n", "namespace": "ns", place: name}
    with pytest.raises(InvalidRequestError, match=r"\(not sent\)$") as found:
        _ = Request("GET", PODS, **given_names).target
    assert found.value.status == 400


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_without_a_name_nothing_is_done_to_all_objects(method: str) -> None:
    with pytest.raises(InvalidRequestError):
        _ = Request(method, NODES).path


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", NODES, is_of_one=True),
        Request("GET", PODS, "p"),
        Request("POST", PODS, "", "ns", "eviction"),
    ],
)
def test_what_is_about_one_object_needs_its_name(request_: Request) -> None:
    with pytest.raises(InvalidRequestError):
        _ = request_.path


@given(NAMES, NAMES, st.dictionaries(st.sampled_from("ab"), st.text(alphabet="&=?#é"), max_size=2))
def test_whatever_is_sent_is_about_that_object(
    name: str, namespace: str, query: dict[str, str]
) -> None:
    try:
        target = Request("GET", PODS, name, namespace, query=query, is_of_one=True).target
    except InvalidRequestError:
        return
    path, _, _ = target.partition("?")
    root, place = path.split("/")[:4], path.split("/")[4:]
    assert root == ["", "api", "v1", "namespaces"]
    assert [unquote(one) for one in place] == [namespace, "pods", name]
    assert "#" not in target
