"""Docker's calls: which requests they are, what they are about, and what is sent on.

What is executed by dockerd 20.10 and 28 was looked up by asking them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_hooks.protocol import respond
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_proto import hook_pb2 as pb
from koord_proxy.contract.events import RequestArrived
from koord_proxy.contract.runtime_api import InterceptedRequest, RewrittenRequest
from koord_proxy.docker.calls import DockerApi
from koord_proxy.docker.targets import CREATE, REMOVE, START, STOP, UPDATE
from koord_proxy.rules.merge import ContainerHookRequest, Merge, PodHookRequest
from koord_proxy.rules.records import RecordKind, RuntimeRecord
from koord_proxy.store import RecordStore

from tests.support import docker_bodies as bodies
from tests.support import docker_requests as requests
from tests.support.docker_bodies import CONTAINER, SANDBOX, UID, text

MIB = 1 << 20


@pytest.fixture
def store() -> RecordStore:
    """One pod and one container of it are known."""
    known = RecordStore("")
    hook_request = PodHookRequest(pod_meta={"name": "life", "namespace": "default", "uid": UID})
    known.put(RuntimeRecord(RecordKind.POD, SANDBOX, hook_request))
    put_container(known, CONTAINER)
    return known


def put_container(store: RecordStore, id: str, attempt: int = 0, **limits: int) -> None:  # noqa: A002
    hook_request = ContainerHookRequest(
        pod_meta={"name": "life", "namespace": "default", "uid": UID},
        container_meta={"name": "main", "id": id, "attempt": attempt},
        container_resources=limits,
    )
    store.put(RuntimeRecord(RecordKind.CONTAINER, id, hook_request, SANDBOX))


def read(store: RecordStore, asked: requests.RuntimeRequest) -> InterceptedRequest | None:
    calls = DockerApi(store)
    call = calls.call(asked.target)
    assert call, asked.target
    return calls.parse(RequestArrived(1, call, asked.body, True, target=asked.target))


def about(store: RecordStore, target: str, body: bytes = b"") -> tuple[str, str] | None:
    asked = read(store, requests.RuntimeRequest(target, body))
    return None if asked is None else (asked.method.name, asked.id)


def test_what_may_be_asked_first() -> None:
    calls = DockerApi(RecordStore(""))
    assert {call: set(calls.stages(call)) for call in (CREATE, START, UPDATE, STOP, REMOVE)} == {
        CREATE: {Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER},
        START: {Stage.PRE_START_CONTAINER},
        UPDATE: {Stage.PRE_UPDATE_CONTAINER_RESOURCES},
        STOP: set(),
        REMOVE: {Stage.PRE_REMOVE_POD_SANDBOX},
    }


# ---- what is made


@pytest.mark.parametrize(
    ("request_", "method", "sandbox", "kind"),
    [
        (requests.create_sandbox(attempt=3), "RunPodSandbox", "", PodHookRequest),
        (requests.create_container(attempt=2), "CreateContainer", SANDBOX, ContainerHookRequest),
        # After a name conflict cri-dockerd appends a token and tries again.
        (
            requests.create(f"{requests.name('main')}_6ba5f31a", bodies.container_create()),
            "CreateContainer",
            SANDBOX,
            ContainerHookRequest,
        ),
    ],
    ids=["sandbox", "container", "name taken"],
)
def test_creates(store: RecordStore, request_: Any, method: str, sandbox: str, kind: Any) -> None:
    asked = read(store, request_)
    assert asked is not None
    assert (asked.method.name, asked.id, asked.sandbox) == (method, "", sandbox)
    assert not asked.describes_pod
    hook_request = asked.new_hook_request(None)
    assert type(hook_request) is kind
    # A container without its pod still says whose it is.
    assert (hook_request.pod_meta.name, hook_request.pod_meta.uid) == ("life", UID)
    assert asked.created_id(requests.made("c")) == "c"
    assert asked.created_id(b"") == ""


def test_a_container_in_a_known_pod(store: RecordStore) -> None:
    asked = read(store, requests.create_container(attempt=2))
    assert asked is not None
    hook_request: Any = asked.new_hook_request(
        PodHookRequest(labels={"l": "1"}, pod_meta={"uid": "kept"})
    )
    assert (hook_request.container_meta.name, hook_request.container_meta.attempt) == ("main", 2)
    assert (hook_request.pod_meta.uid, dict(hook_request.pod_labels)) == ("kept", {"l": "1"})


@pytest.mark.parametrize(
    "name",
    [
        "",
        "web",
        "k8s_main_life_default",
        f"k8s_main_life_default_{UID}_x",
        f"k8s_main_life_default_{UID}_0_a_b",
        f"K8S_main_life_default_{UID}_0",
    ],
)
@pytest.mark.parametrize("body", [text(bodies.container_create()), b"no JSON", b""])
def test_a_name_of_nothing_of_kubernetes(store: RecordStore, name: str, body: bytes) -> None:
    assert read(store, requests.create(name, body)) is None


def test_labels_of_nothing_of_kubernetes(store: RecordStore) -> None:
    for value in (None, "", "Container"):
        request = requests.create_container(labels={"io.kubernetes.docker.type": value})
        assert read(store, request) is None


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("name={}", True),
        ("platform=linux&name={}", True),
        ("%6eame={}", True),
        ("name={}&name=web", True),
        # The first one counts.
        ("name=web&name={}", False),
        ("name=&name={}", False),
        ("?name={}", False),
        ("name={}%20", False),
        ("Name={}", False),
        ("", False),
        ("?", False),
        ("name", False),
        ("name=", False),
    ],
)
def test_where_the_name_is(store: RecordStore, query: str, seen: bool) -> None:
    target = f"POST /containers/create?{query.format(requests.name('main'))}"
    body = text(bodies.container_create())
    assert (read(store, requests.RuntimeRequest(target, body)) is not None) is seen


def test_the_name_is_decoded(store: RecordStore) -> None:
    name = requests.name("main").replace("_", "%5F")
    body = text(bodies.container_create())
    for host in ("", "http://docker"):
        target = f"POST {host}/v1.46/containers/create?name={name}#"
        assert read(store, requests.RuntimeRequest(target, body)) is None
        asked = read(store, requests.RuntimeRequest(target.removesuffix("#"), body))
        assert asked is not None
        assert asked.new_hook_request(None).pod_meta.uid == UID


@pytest.mark.parametrize("name", [requests.name("main"), requests.name()])
def test_a_body_that_cannot_be_read(store: RecordStore, name: str) -> None:
    with pytest.raises(ValueError, match="is not a JSON object"):
        read(store, requests.create(name, b"no JSON"))


# ---- what is about one


@pytest.mark.parametrize(
    ("target", "of_container", "of_pod"),
    [
        ("POST /v1.46/containers/{}/start", "StartContainer", None),
        ("POST /v1.46/containers/{}/update", "UpdateContainerResources", None),
        ("POST /v1.46/containers/{}/stop?t=10", "StopContainer", "StopPodSandbox"),
        ("DELETE /v1.46/containers/{}?v=1", "RemoveContainer", "RemovePodSandbox"),
    ],
)
def test_a_known_one(
    store: RecordStore, target: str, of_container: str | None, of_pod: str | None
) -> None:
    pod, container = requests.name(), requests.name("main")
    for shown in (CONTAINER, CONTAINER[:12], f"%{ord('c'):x}{CONTAINER[1:13]}", container):
        asked = about(store, target.format(shown), b"{}")
        assert asked == (of_container, CONTAINER)
    for shown in (SANDBOX, SANDBOX[:12], SANDBOX[:63], pod):
        asked = about(store, target.format(shown), b"{}")
        assert asked == (None if of_pod is None else (of_pod, SANDBOX))


@pytest.mark.parametrize(
    "shown",
    [
        "0" * 64,
        "0",
        CONTAINER.upper(),
        CONTAINER + "0",
        # So short a one may be a name, which docker prefers.
        CONTAINER[:11],
        requests.name("main") + "_0a1b2c3d",
        requests.name("other"),
        requests.name("main", attempt=1),
        requests.name("main", uid="u"),
        requests.name("main", pod="p"),
        requests.name("POD", attempt=1),
        "%2Fetc",
        "a b",
        "50%",
    ],
)
def test_an_unknown_one(store: RecordStore, shown: str) -> None:
    """It may yet be looked up, but for what was stopped: then there is nobody to inform."""
    if "%2F" in shown:
        # Redirected from.
        assert not DockerApi(store).call(f"POST /containers/{shown}/start")
        return
    assert about(store, f"POST /containers/{shown}/start") == ("StartContainer", shown)
    update = about(store, f"POST /containers/{shown}/update", b"{}")
    assert update == ("UpdateContainerResources", shown)
    assert about(store, f"POST /containers/{shown}/stop") is None
    # It may be a pod: records of pods leave when they are stopped.
    assert about(store, f"DELETE /containers/{shown}") == ("RemovePodSandbox", shown)


def test_a_beginning_of_several_ids(store: RecordStore) -> None:
    put_container(store, SANDBOX[:12] + "0" * 52)
    assert about(store, f"POST /containers/{SANDBOX[:13]}/stop") == ("StopPodSandbox", SANDBOX)
    assert about(store, f"POST /containers/{SANDBOX[:12]}/stop") is None
    # The whole id is not the beginning of another.
    put_container(store, CONTAINER + "0")
    assert about(store, f"POST /containers/{CONTAINER}/stop") == ("StopContainer", CONTAINER)


def test_names_are_of_one_attempt(store: RecordStore) -> None:
    put_container(store, "second", attempt=1)
    for attempt, id in enumerate((CONTAINER, "second")):  # noqa: A001
        name = requests.name("main", attempt=attempt)
        assert about(store, f"POST /containers/{name}/start") == ("StartContainer", id)


def test_a_container_that_is_called_like_a_sandbox(store: RecordStore) -> None:
    record = store.get(RecordKind.CONTAINER, CONTAINER)
    assert record is not None
    record.hook_request.container_meta.name = "POD"
    assert about(store, f"POST /containers/{requests.name('POD')}/stop") is None


def test_an_update_that_cannot_be_read(store: RecordStore) -> None:
    for shown in (CONTAINER, "unknown"):
        with pytest.raises(ValueError, match=r"^the update body is not a JSON object"):
            about(store, f"POST /containers/{shown}/update", b"[]")
    # Nobody reads that of a sandbox.
    assert about(store, f"POST /containers/{SANDBOX}/update", b"[]") is None


def test_a_request_makes_and_sets_what_it_is_for(store: RecordStore) -> None:
    started, removed = read(store, requests.start()), read(store, requests.remove(SANDBOX))
    assert started is not None
    assert removed is not None
    for asked in (started, removed):
        assert asked.rewrite(Merge(PodHookRequest())) == RewrittenRequest(None)
        assert asked.created_id(requests.made("c")) == ""
        with pytest.raises(TypeError, match="makes nothing"):
            asked.new_hook_request(None)
        with pytest.raises(TypeError, match="sets nothing"):
            asked.updated_hook_request(ContainerHookRequest())


# ---- what hooks change: the details are those of test_bodies


def rewritten(
    store: RecordStore, request: requests.RuntimeRequest, known: Any, *responses: Any
) -> tuple[Any, list[str], Merge]:
    """The body sent on, None if as it came; what was left out; and the merge."""
    asked = read(store, request)
    assert asked is not None
    makes = asked.method.makes
    merge = Merge(asked.new_hook_request(known) if makes else asked.updated_hook_request(known))
    for number, response in enumerate(responses):
        wants = respond(merge.hook_request, response) if isinstance(response, Patch) else response
        merge.add(f"hooks{number}", wants)
    message, left_out = asked.rewrite(merge)
    body = None if message is None else json.loads(message)
    return body, [str(field) for field in left_out], merge


def limits(**wanted: Any) -> pb.ContainerResourceHookResponse:
    return pb.ContainerResourceHookResponse(container_resources=wanted)


CREATES = [requests.create_sandbox(), requests.create_container()]
UPDATE_REQUEST = requests.update(CpuShares=4)


@pytest.mark.parametrize("request_", [*CREATES, UPDATE_REQUEST])
@pytest.mark.parametrize("patches", [(), (Patch(),)])
def test_nobody_wants_anything(store: RecordStore, request_: Any, patches: Any) -> None:
    known = ContainerHookRequest() if request_ is UPDATE_REQUEST else None
    assert rewritten(store, request_, known, *patches)[:2] == (None, [])


def test_only_what_docker_has_a_place_for_is_sent(store: RecordStore) -> None:
    sandbox, container = CREATES
    unified = limits(unified={"memory.high": "1"})
    assert rewritten(store, container, None, unified)[:2] == (None, ["unified[memory.high]"])
    body, left_out, _ = rewritten(store, container, None, unified, limits(cpu_shares=7))
    assert left_out == ["unified[memory.high]"]
    assert body["HostConfig"] == json.loads(container.body)["HostConfig"] | {"CpuShares": 7}
    own = Patch(labels={"io.kubernetes.docker.type": "container"})
    expected = (None, ["labels[io.kubernetes.docker.type]"])
    assert rewritten(store, sandbox, None, own)[:2] == expected
    body, left_out, _ = rewritten(store, sandbox, None, Patch(labels={"l": "1"}))
    assert (body["Labels"], left_out) == (bodies.SANDBOX_LABELS | {"l": "1"}, [])


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        # Nothing is swapped, and stays so.
        ({"memory_limit_in_bytes": 128 * MIB}, (128, 128)),
        # Hooks that name both mean both.
        ({"memory_limit_in_bytes": 128 * MIB, "memory_swap_limit_in_bytes": 256 * MIB}, (128, 256)),
    ],
)
def test_swap_goes_along_with_memory(store: RecordStore, wanted: Any, sent: Any) -> None:
    size = {"memory_limit_in_bytes": 64 * MIB, "memory_swap_limit_in_bytes": 64 * MIB}
    container = requests.create_container(Memory=64 * MIB, MemorySwap=64 * MIB)
    known = ContainerHookRequest(container_resources=size)
    for request, before in ((container, None), (UPDATE_REQUEST, known)):
        body, left_out, merge = rewritten(store, request, before, limits(**wanted))
        host = body.get("HostConfig", body)
        assert (host["Memory"], host["MemorySwap"]) == (sent[0] * MIB, sent[1] * MIB)
        assert left_out == []
        resources = merge.hook_request.container_resources
        assert resources.memory_swap_limit_in_bytes == sent[1] * MIB


def test_who_wanted_memory_wanted_swap(store: RecordStore) -> None:
    wants = [limits(memory_limit_in_bytes=size * MIB) for size in (128, 256)]
    body, _, merge = rewritten(store, CREATES[1], None, *wants)
    host = body["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (128 * MIB, 128 * MIB)
    [conflict] = merge.conflicts
    assert (conflict.kept, conflict.overruled) == ("hooks0", "hooks1")


class TestUpdate:
    KNOWN = ContainerHookRequest(
        container_annotations={"c": "1"},
        container_resources={"cpu_shares": 2, "cpu_quota": 5000, "cpuset_cpus": "0-3"},
    )

    def test_what_it_cannot_do(self, store: RecordStore) -> None:
        patch = Patch(annotations={"c": "2"}, env={"A": "2"}, cgroup_parent="/x")
        score = limits(oom_score_adj=5)
        body, left_out, _ = rewritten(store, requests.update(), self.KNOWN, patch, score)
        assert body is None
        assert sorted(left_out) == [
            "annotations[c]",
            "cgroup_parent",
            "env[A]",
            "resources[oom_score_adj]",
        ]

    def test_what_cannot_be_cleared_is_remembered(self, store: RecordStore) -> None:
        """To docker, an empty cpuset says that it is to stay."""
        echo = pb.ContainerResourceHookResponse(
            container_annotations={"c": "1"},
            container_resources={"cpu_shares": 7, "cpu_quota": 5000, "cpuset_cpus": ""},
        )
        body, left_out, merge = rewritten(store, requests.update(), self.KNOWN, echo)
        assert left_out == ["resources[cpuset_cpus]"]
        assert (body["CpusetCpus"], body["CpuShares"]) == ("", 7)
        merge.undo([field for field in merge.claims if str(field) in left_out])
        resources = merge.hook_request.container_resources
        assert (resources.cpuset_cpus, resources.cpu_shares) == ("0-3", 7)
        # What is known is not changed before the update has succeeded.
        assert self.KNOWN.container_resources.cpu_shares == 2
