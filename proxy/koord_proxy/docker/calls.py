"""Docker's API as a runtime API: which requests are calls of the CRI by other names.

A create is a RunPodSandbox or a CreateContainer, by its labels; a stop or a removal
is that of a pod or a container, by the records. Whatever is not of Kubernetes, and
the start of a sandbox, which was hooked when it was created, goes on unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, cast

from koord_hooks.protocol import HookRequest
from koord_hooks.stages import Stage

from koord_proxy.contract.events import RequestArrived
from koord_proxy.contract.runtime_api import InterceptedRequest, RewrittenRequest
from koord_proxy.docker.bodies import CreateBody, UpdateBody, tie_swap
from koord_proxy.docker.engine_responses import id_of_created
from koord_proxy.docker.naming import Name, parse_name
from koord_proxy.docker.targets import CREATE, REMOVE, START, STOP, UPDATE, look, name_asked_for
from koord_proxy.rules.merge import ContainerHookRequest, Field, Merge, PodHookRequest
from koord_proxy.rules.methods import METHODS, InterceptedMethod
from koord_proxy.rules.records import RecordKind, RequestedLimits, RuntimeRecord

_STAGES = {
    CREATE: (Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER),
    START: (Stage.PRE_START_CONTAINER,),
    UPDATE: (Stage.PRE_UPDATE_CONTAINER_RESOURCES,),
    STOP: (),
    REMOVE: (Stage.PRE_REMOVE_POD_SANDBOX,),
}
# What the calls about one container are, by the kind of its record.
_METHODS = {
    (START, RecordKind.CONTAINER): METHODS["StartContainer"],
    (UPDATE, RecordKind.CONTAINER): METHODS["UpdateContainerResources"],
    (STOP, RecordKind.POD): METHODS["StopPodSandbox"],
    (STOP, RecordKind.CONTAINER): METHODS["StopContainer"],
    (REMOVE, RecordKind.POD): METHODS["RemovePodSandbox"],
    (REMOVE, RecordKind.CONTAINER): METHODS["RemoveContainer"],
}
_SHORT_ID = re.compile("[0-9a-f]{12,64}")
_SANDBOX = "POD"
"""Container name of a pod's sandbox."""


class KnownRecords(Protocol):
    """The records."""

    def get(self, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        """The record of a pod sandbox or container."""

    def records(self, kind: RecordKind) -> list[RuntimeRecord]:
        """All records of a kind."""


class DockerApi:
    """The Docker Engine API; a target is an HTTP method and a request target."""

    def __init__(self, known: KnownRecords) -> None:
        self._known = known

    def call(self, target: str) -> str:
        return look(target).call

    def rewrites_answer(self, target: str) -> bool:
        return False

    def rewrite_answer(
        self, message: bytes, requested: Callable[[str], RequestedLimits | None]
    ) -> bytes | None:
        return None

    def stages(self, call: str) -> Sequence[Stage]:
        return _STAGES[call]

    def label(self, target: str) -> str:
        return look(target).label

    def update(self, id: str) -> DockerUpdate:  # noqa: A002
        return DockerUpdate(id, b"{}")

    def parse(self, arrived: RequestArrived) -> InterceptedRequest | None:
        body = arrived.message or b""
        call, reference, _ = look(arrived.target)
        if call == CREATE:
            create = CreateBody.read(body, name_asked_for(arrived.target))
            return None if create is None else DockerCreate(create)
        record = self._find(reference)
        # What is unknown may be a container that has yet to be looked up; or, if it is
        # removed, a pod, whose record left when it was stopped.
        unknown = RecordKind.POD if call == REMOVE else RecordKind.CONTAINER
        method = _METHODS.get((call, record.kind if record else unknown))
        if method is None or (record is None and call == STOP):
            return None
        id = record.id if record else reference  # noqa: A001
        return DockerUpdate(id, body) if call == UPDATE else DockerRequest(method, id)

    def _find(self, reference: str) -> RuntimeRecord | None:
        """The record of what a path names: by id, by a short one as docker shows it, or by name.

        Docker prefers a name to the beginning of an id. So a shorter beginning may mean
        something else, and one that is as long will not.
        """
        for kind in RecordKind:
            record = self._known.get(kind, reference)
            if record is not None:
                return record
        # With a random token behind it, it is the name of another try.
        name = parse_name(reference) if reference.count("_") == len(Name._fields) else None
        if name is None and not _SHORT_ID.fullmatch(reference):
            return None
        found = [
            record
            for kind in RecordKind
            for record in self._known.records(kind)
            if (_is_called(record, name) if name else record.id.startswith(reference))
        ]
        return found[0] if len(found) == 1 else None


class DockerRequest:
    """A request about one pod or container, without a body that hooks know of."""

    describes_pod = False
    sandbox = ""

    def __init__(self, method: InterceptedMethod, id: str) -> None:  # noqa: A002
        self.method = method
        self.id = id

    def new_hook_request(self, pod: PodHookRequest | None) -> HookRequest:
        raise TypeError(f"{self.method.name} makes nothing")

    def updated_hook_request(self, known: ContainerHookRequest) -> ContainerHookRequest:
        raise TypeError(f"{self.method.name} sets nothing")

    def rewrite(self, merge: Merge, *, complete: bool = True) -> RewrittenRequest:
        return RewrittenRequest(None)

    def created_id(self, response: bytes) -> str:
        return ""


class DockerCreate(DockerRequest):
    """A request to create the container that is a pod's sandbox, or one in it."""

    def __init__(self, create: CreateBody) -> None:
        container = create.container
        is_pod = container.kind is RecordKind.POD
        super().__init__(METHODS["RunPodSandbox" if is_pod else "CreateContainer"], "")
        self.sandbox = container.sandbox
        self._create = create

    def new_hook_request(self, pod: PodHookRequest | None) -> HookRequest:
        container = self._create.container
        if container.kind is RecordKind.POD:
            return container.pod_hook_request()
        return container.container_hook_request(pod)

    def rewrite(self, merge: Merge, *, complete: bool = True) -> RewrittenRequest:
        claims = merge.claims
        if isinstance(merge.hook_request, ContainerHookRequest):
            before = self._create.container.container_hook_request(None)
            claims = tie_swap(before, merge.hook_request, claims)
        return _written(self._create, merge.hook_request, claims)

    def created_id(self, response: bytes) -> str:
        return id_of_created(response)


class DockerUpdate(DockerRequest):
    """A request to update a container's limits."""

    def __init__(self, id: str, body: bytes) -> None:  # noqa: A002
        super().__init__(METHODS["UpdateContainerResources"], id)
        self._update = UpdateBody(body)
        self._before = ContainerHookRequest()

    def updated_hook_request(self, known: ContainerHookRequest) -> ContainerHookRequest:
        self._before = self._update.updated_hook_request(known)
        hook_request = ContainerHookRequest()
        hook_request.CopyFrom(self._before)
        return hook_request

    def rewrite(self, merge: Merge, *, complete: bool = True) -> RewrittenRequest:
        hook_request = cast("ContainerHookRequest", merge.hook_request)
        return _written(
            self._update, hook_request, tie_swap(self._before, hook_request, merge.claims)
        )


def _written(
    body: CreateBody | UpdateBody, hook_request: Any, claims: Collection[Field]
) -> RewrittenRequest:
    """A body with what hooks changed of it; ``hook_request`` are of what it makes or updates."""
    left_out = body.left_out(hook_request, claims)
    changed = len(left_out) < len(claims)
    return RewrittenRequest(body.written(hook_request, claims) if changed else None, left_out)


def _is_called(record: RuntimeRecord, name: Name) -> bool:
    """True if a record belongs to the container of this name."""
    hook_request = record.hook_request
    pod = hook_request.pod_meta
    if (pod.name, pod.namespace, pod.uid) != (name.pod, name.namespace, name.uid):
        return False
    if isinstance(hook_request, ContainerHookRequest):
        return (hook_request.container_meta.name, hook_request.container_meta.attempt) == (
            name.container,
            name.attempt,
        )
    return (name.container, pod.attempt) == (_SANDBOX, name.attempt)
