"""Docker's answers: the id of what was made, records of what is inspected, the list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proxy.docker.bodies import CreateBody
from koord_proxy.docker.engine_responses import ContainerListEntry, id_of_created, inspected, listed
from koord_proxy.rules.records import RecordKind, RuntimeRecord, identity

from tests.support import docker_bodies as bodies
from tests.support.docker_bodies import CONTAINER, SANDBOX, UID, text


@pytest.mark.parametrize(
    ("response", "id"),
    [
        (b'{"Id":"abc","Warnings":[]}\n', "abc"),
        (b'{"Warnings":["no swap"],"Id":"abc"}', "abc"),
        (b'{"message":"Conflict."}', ""),
        (b'{"Id":null}', ""),
        (b'{"Id":5}', ""),
        (b'{"Id":"abc"', ""),
        (b"[]", ""),
        (b"", ""),
    ],
)
def test_the_id_of_what_was_made(response: bytes, id: str) -> None:  # noqa: A002
    assert id_of_created(response) == id


def test_what_is_inspected_is_what_was_created() -> None:
    created = CreateBody.read(text(bodies.sandbox_create()), bodies.SANDBOX_NAME)
    assert created is not None
    pod = created.container.pod_hook_request()
    # Docker fills in its default.
    pod.runtime_handler = "runc"
    record = RuntimeRecord(RecordKind.POD, SANDBOX, pod)
    assert inspected(text(bodies.sandbox_inspected())) == record
    created = CreateBody.read(text(bodies.container_create()), bodies.CONTAINER_NAME)
    assert created is not None
    hook_request = created.container.container_hook_request(None)
    hook_request.container_meta.id = CONTAINER
    record = RuntimeRecord(RecordKind.CONTAINER, CONTAINER, hook_request, SANDBOX)
    assert inspected(text(bodies.container_inspected())) == record


def test_a_container_that_names_no_sandbox() -> None:
    body = bodies.container_inspected()
    del body["Config"]["Labels"]["io.kubernetes.sandbox.id"]
    record = inspected(text(body))
    assert record is not None
    assert (record.sandbox, record.hook_request.pod_meta.uid) == ("", UID)


@pytest.mark.parametrize(
    "changed",
    [
        {"Name": "/web"},
        {"Name": "/k8s_foo"},
        {"Config": {"Labels": {}}},
        {"Config": {"Labels": None}},
        {"Config": None},
    ],
)
def test_nothing_of_kubernetes_inspected(changed: dict[str, Any]) -> None:
    assert inspected(text(bodies.container_inspected() | changed)) is None


@pytest.mark.parametrize("body", [b"", b"null", b'{"Name":', b'{"Config":[]}'])
def test_an_inspection_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(ValueError, match="the inspected container is not a JSON object"):
        inspected(body)


def test_the_list() -> None:
    body = [
        bodies.listed(CONTAINER, bodies.CONTAINER_NAME, bodies.CONTAINER_LABELS),
        bodies.listed(SANDBOX, bodies.SANDBOX_NAME, bodies.SANDBOX_LABELS),
        bodies.listed("a", "web", {}),
        bodies.listed("b", "k8s_foo", bodies.CONTAINER_LABELS),
        bodies.listed("c", bodies.CONTAINER_NAME, {}),
        {"Id": "d", "Names": None, "Labels": None},
    ]
    container, sandbox = listed(text(body))
    assert (container.id, container.kind, container.sandbox) == (
        CONTAINER,
        RecordKind.CONTAINER,
        SANDBOX,
    )
    assert (sandbox.id, sandbox.kind, sandbox.sandbox) == (SANDBOX, RecordKind.POD, "")


@pytest.mark.parametrize(
    ("id", "name", "labels", "inspection"),
    [
        (SANDBOX, bodies.SANDBOX_NAME, bodies.SANDBOX_LABELS, bodies.sandbox_inspected),
        (CONTAINER, bodies.CONTAINER_NAME, bodies.CONTAINER_LABELS, bodies.container_inspected),
    ],
)
def test_the_list_and_the_records_agree_on_identity(
    id: str,  # noqa: A002
    name: str,
    labels: dict[str, str],
    inspection: Any,
) -> None:
    record = inspected(text(inspection()))
    (entry,) = listed(text([bodies.listed(id, name, labels)]))
    assert record is not None
    assert entry.identity == identity(record.kind, record.hook_request, record.sandbox)
    assert (entry.id, entry.kind, entry.sandbox) == (record.id, record.kind, record.sandbox)


def test_a_listed_container_with_several_names() -> None:
    entry = bodies.listed(CONTAINER, bodies.CONTAINER_NAME, bodies.CONTAINER_LABELS)
    entry["Names"].insert(0, "/other/alias")
    assert listed(text([entry]))[0].identity == f"container/{SANDBOX}/main/2"


def test_what_is_nothing_of_kubernetes_has_no_identity() -> None:
    names = [f"/{bodies.CONTAINER_NAME}"]
    for entry in (ContainerListEntry("a"), ContainerListEntry("a", names, {})):
        assert (entry.kind, entry.identity, entry.sandbox) == (None, "", "")


@pytest.mark.parametrize("state", ["created", "running", "paused", "restarting"])
@pytest.mark.parametrize("other", ["removing", "exited", "dead", ""])
def test_live_states(state: str, other: str) -> None:
    body = [
        bodies.listed(SANDBOX, bodies.SANDBOX_NAME, bodies.SANDBOX_LABELS, one)
        for one in (state, other)
    ]
    assert [one.live for one in listed(text(body))] == [True, False]


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b"[{}]", b"[null]", b'[{"Id":5}]', b"[" * 100_000]
)
def test_a_list_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^cannot decode the list of containers: .+$"):
        listed(body)


@given(st.binary())
def test_any_bytes_are_refused_at_most(body: bytes) -> None:
    for read in (listed, inspected):
        try:
            read(body)
        except ValueError:
            pass
    assert isinstance(id_of_created(body), str)
