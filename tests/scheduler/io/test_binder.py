"""Each pod is bound, or surely not, whatever the API server answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from koord_kube.answers import TaskSubmitter
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import RESERVATIONS, Resource
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io import look_up
from koord_scheduler.io.binder import Binder
from koord_scheduler.io.extender_client import ExtenderClient
from koord_scheduler.io.limited_writer import Submit, Write
from koord_scheduler.plugins.device_share.assumed_devices import AssumedDevices
from koord_scheduler.plugins.reservation.columns import ReservationColumns
from koord_scheduler.plugins.reservation.reservation_reader import ReservationReader
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import PodReader

from tests.support.reservations import reservation
from tests.support.waiting import until

BOUND, NOT_BOUND, TAKEN = "bound", "not bound", "taken back"
UNKNOWN = ApiError("no answer")
BROKEN = ApiError("broken", 500)


def placement(name: str, node: str = "n1") -> Placement:
    document = {"metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}"}}
    read = PodReader(ClusterState()).read(json.dumps(document).encode())
    assert read.waiting is not None
    return Placement(QueuedPod(read.key, read.uid, 0, read.waiting, 1, 0.0), node)


NO_EXTENDERS = ExtenderClient([], {}, ApiDocuments([]))


class Api:
    """Answers bindings and look-ups as scripted; the last answer again and again."""

    def __init__(self, writes: Iterable[Any], reads: Iterable[Any] = ()) -> None:
        self.writes, self.reads = list(writes), list(reads)
        self.sent: list[Request] = []
        self.outcomes: list[tuple[str, str]] = []

    async def write(self, request: Request) -> bytes:
        self.sent.append(request)
        return bytes(_next(self.writes))

    async def read(self, name: str, namespace: str) -> Object:
        return dict(_next(self.reads))

    def bound(self, placement: Placement) -> None:
        self.outcomes.append((placement.pod.key, BOUND))

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        self.outcomes.append((pod.key, NOT_BOUND))


def submitting(write: Write) -> Submit:
    return TaskSubmitter(write).submit


def _next(answers: list[Any]) -> Any:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer


def pod(node: str = "", uid: str = "u-p") -> Object:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node} if node else {}}


@pytest.mark.parametrize(
    ("writes", "reads", "expected", "requests"),
    [
        ([b"{}"], [], BOUND, 1),
        ([ConflictError("assigned", 409)], [], NOT_BOUND, 1),
        ([NotFoundError("gone", 404)], [], NOT_BOUND, 1),
        ([ApiError("forbidden", 403)], [], NOT_BOUND, 1),
        ([NotLeadingError("not leading")], [], NOT_BOUND, 1),
        ([UNKNOWN], [pod("n1")], BOUND, 1),
        ([UNKNOWN], [pod()], NOT_BOUND, 1),
        ([UNKNOWN], [pod("n2")], NOT_BOUND, 1),
        ([UNKNOWN], [pod("n1", uid="u-other")], NOT_BOUND, 1),
        ([UNKNOWN], [NotFoundError("gone", 404)], NOT_BOUND, 1),
        ([BROKEN], [UNKNOWN, BROKEN, pod("n1")], BOUND, 1),
    ],
)
async def test_what_becomes_of_a_binding(
    writes: list[Any],
    reads: list[Any],
    expected: str,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_up, "FIRST_PAUSE", 0.001)
    api = Api(writes, reads)
    binder = Binder(submitting(api.write), api.read, api, NO_EXTENDERS)
    binder.bind(placement("p"))
    assert binder.unsent == 1
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "an outcome")
        group.cancel_scope.cancel()
    assert api.outcomes == [("shop/p", expected)]
    assert len(api.sent) == requests


async def test_what_fails_alike_is_logged_alike() -> None:
    """A ``LogLimiter`` says once what comes after the first colon."""
    warnings: list[str] = []
    api = Api([])

    async def write(request: Request) -> bytes:
        raise ApiError(f"{request}: 403 no", 403)

    binder = Binder(submitting(write), api.read, api, NO_EXTENDERS, on_warning=warnings.append)
    for name, node in (("p", "n1"), ("q", "n2")):
        binder.bind(placement(name, node))
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "outcomes")
        group.cancel_scope.cancel()
    abouts, reasons = zip(*(one.split(": ", 1) for one in warnings), strict=True)
    assert ["n1" in one for one in abouts] == [True, False]
    assert set(reasons) == {"403 no"}


async def test_a_binding_is_of_one_pod_and_one_node() -> None:
    api = Api([b"{}"])
    binder = Binder(submitting(api.write), api.read, api, NO_EXTENDERS)
    binder.bind(placement("p"))
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "an outcome")
        group.cancel_scope.cancel()
    (request,) = api.sent
    assert request.path == "/api/v1/namespaces/shop/pods/p/binding"
    assert request.body is not None
    assert request.body["metadata"]["uid"] == "u-p"
    assert request.body["target"]["name"] == "n1"


@pytest.mark.parametrize(("answer", "expected"), [(b"{}", [BOUND]), (BROKEN, [TAKEN, NOT_BOUND])])
async def test_what_is_reserved_is_taken_back_before_a_pods_turn_comes_again(
    answer: Any, expected: list[str]
) -> None:
    api = Api([answer], [pod()])

    async def take_back(placement: Placement) -> None:
        api.outcomes.append((placement.pod.key, TAKEN))

    binder = Binder(submitting(api.write), api.read, api, NO_EXTENDERS, take_back=take_back)
    binder.bind(placement("p")._replace(reserved=("something",)))
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "an outcome")
        group.cancel_scope.cancel()
    assert api.outcomes == [("shop/p", one) for one in expected]


def reserved(name: str, node: str = "n1") -> Placement:
    document, nodes = reservation(name, "4", owners=[]), ClusterState()
    reader = ReservationReader(nodes, nodes.use(ReservationColumns))
    read = reader.read(json.dumps(document).encode()).pod
    assert read.waiting is not None
    return Placement(QueuedPod(read.key, read.uid, 0, read.waiting, 1, 0.0), node)


@pytest.mark.parametrize(
    ("writes", "sent", "expected"),
    [
        ([b'{"metadata": {"resourceVersion": "8"}}', b"{}"], ["", "status"], BOUND),
        ([ConflictError("it has changed", 409)], [""], NOT_BOUND),
    ],
)
async def test_devices_of_a_reservation_are_written_before_it_is_available(
    writes: list[Any], sent: list[str], expected: str
) -> None:
    api = Api(writes, [])
    devices = AssumedDevices((), ((ANNOTATION_DEVICE_ALLOCATED, "{}"),))
    binder = Binder(submitting(api.write), api.read, api, NO_EXTENDERS, wall=lambda: 0.0)
    binder.bind(reserved("r")._replace(reserved=(devices,)))
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "an outcome")
        group.cancel_scope.cancel()
    assert api.outcomes == [("Reservation/r", expected)]
    assert [one.subresource for one in api.sent] == sent
    first = api.sent[0].body
    assert first is not None
    annotations = {ANNOTATION_DEVICE_ALLOCATED: "{}"}
    assert first["metadata"] == {"uid": "u-r", "resourceVersion": "7", "annotations": annotations}
    if len(api.sent) == 2:
        assert api.sent[1].body is not None
        assert api.sent[1].body["metadata"] == {"uid": "u-r", "resourceVersion": "8"}


def written(node: str = "", uid: str = "u-r") -> Object:
    return {"metadata": {"uid": uid}, "status": {"nodeName": node} if node else {}}


@pytest.mark.parametrize(
    ("writes", "reads", "expected"),
    [
        ([b"{}"], [], BOUND),
        ([ConflictError("it has changed", 409)], [], NOT_BOUND),
        ([UNKNOWN], [written("n1")], BOUND),
        ([UNKNOWN], [written("n2")], NOT_BOUND),
        ([UNKNOWN], [written("n1", "u-other")], NOT_BOUND),
        ([UNKNOWN], [NotFoundError("gone", 404)], NOT_BOUND),
    ],
)
async def test_what_becomes_of_a_reservation(
    writes: list[Any], reads: list[Any], expected: str
) -> None:
    api, pods = Api(writes, reads), Api([], [AssertionError("a reservation is no pod")])

    async def read_object(resource: Resource, name: str, namespace: str) -> Object:
        assert resource == RESERVATIONS
        return await api.read(name, namespace)

    binder = Binder(
        submitting(api.write),
        pods.read,
        api,
        NO_EXTENDERS,
        read_object=read_object,
        wall=lambda: 0.0,
    )
    binder.bind(reserved("r"))
    async with anyio.create_task_group() as group:
        group.start_soon(binder.run)
        await until(lambda: binder.unsent == 0, "an outcome")
        group.cancel_scope.cancel()
    assert api.outcomes == [("Reservation/r", expected)]
    (request,) = api.sent
    assert request.path == "/apis/scheduling.koordinator.sh/v1alpha1/reservations/r/status"
    assert request.method == "PATCH"
    assert request.body is not None
    assert request.body["metadata"] == {"uid": "u-r", "resourceVersion": "7"}
    status = request.body["status"]
    assert (status["phase"], status["nodeName"]) == ("Available", "n1")
    assert status["allocatable"] == {"cpu": "4"}
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("Scheduled", "True"),
        ("Ready", "True"),
    ]
