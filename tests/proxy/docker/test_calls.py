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
from tests.support.docker_bodies import CONTAINER, ENV, SANDBOX, SPEC, UID, text

MIB = 1 << 20


@pytest.fixture
def store() -> RecordStore:
    """One pod and one container of it are known."""
    known = RecordStore("")
    facts = PodHookRequest(pod_meta={"name": "life", "namespace": "default", "uid": UID})
    known.put(RuntimeRecord(RecordKind.POD, SANDBOX, facts))
    put_container(known, CONTAINER)
    return known


def put_container(store: RecordStore, id: str, attempt: int = 0, **limits: int) -> None:  # noqa: A002
    facts = ContainerHookRequest(
        pod_meta={"name": "life", "namespace": "default", "uid": UID},
        container_meta={"name": "main", "id": id, "attempt": attempt},
        container_resources=limits,
    )
    store.put(RuntimeRecord(RecordKind.CONTAINER, id, facts, SANDBOX))


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


def test_a_sandbox(store: RecordStore) -> None:
    asked = read(store, requests.create_sandbox(attempt=3))
    assert asked is not None
    assert (asked.method.name, asked.id, asked.sandbox) == ("RunPodSandbox", "", "")
    facts = asked.new_facts(None)
    assert isinstance(facts, PodHookRequest)
    assert facts.pod_meta == pb.PodSandboxMetadata(
        name="life", namespace="default", uid=UID, attempt=3
    )
    assert facts.labels["koordinator.sh/qosClass"] == "BE"
    assert dict(facts.annotations) == {"node.koordinator.sh/extended-resource-spec": SPEC}
    assert facts.cgroup_parent == bodies.PARENT_PATH


def test_a_container(store: RecordStore) -> None:
    asked = read(store, requests.create_container(attempt=2))
    assert asked is not None
    assert (asked.method.name, asked.id, asked.sandbox) == ("CreateContainer", "", SANDBOX)
    assert not asked.describes_pod
    pod = PodHookRequest(labels={"l": "1"}, annotations={"a": "1"}, pod_meta={"uid": "kept"})
    facts = asked.new_facts(pod)
    assert isinstance(facts, ContainerHookRequest)
    assert (facts.container_meta.name, facts.container_meta.attempt) == ("main", 2)
    assert facts.pod_meta.uid == "kept"
    assert dict(facts.pod_labels) == {"l": "1"}
    assert dict(facts.pod_annotations) == {"a": "1"}
    # Without its pod it still tells whose it is.
    alone = asked.new_facts(None)
    assert (alone.pod_meta.name, alone.pod_meta.uid) == ("life", UID)


def test_what_it_made(store: RecordStore) -> None:
    asked = read(store, requests.create_container())
    assert asked is not None
    assert asked.created_id(requests.made("c")) == "c"
    assert asked.created_id(b"") == ""
    # What makes nothing has made nothing.
    started = read(store, requests.start())
    assert started is not None
    assert started.created_id(requests.made("c")) == ""


def test_a_name_that_was_taken(store: RecordStore) -> None:
    """cri-dockerd appends a token and tries again."""
    taken = requests.create(f"{requests.name('main')}_6ba5f31a", bodies.container_create())
    asked = read(store, taken)
    assert asked is not None
    assert asked.method.name == "CreateContainer"


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


@pytest.mark.parametrize(
    "labels",
    [
        {"io.kubernetes.docker.type": None},
        {"io.kubernetes.docker.type": ""},
        {"io.kubernetes.docker.type": "Container"},
    ],
)
def test_labels_of_nothing_of_kubernetes(store: RecordStore, labels: Any) -> None:
    assert read(store, requests.create_container(labels=labels)) is None


def test_no_name(store: RecordStore) -> None:
    body = text(bodies.container_create())
    for query in ("", "?", "?name", "?name=", "?x=1"):
        assert read(store, requests.RuntimeRequest(f"POST /containers/create{query}", body)) is None


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
        assert asked.new_facts(None).pod_meta.uid == UID


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b"null", b'{"Labels":1}', b'{"Labels":{'])
def test_a_body_that_cannot_be_read(store: RecordStore, body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^.*is not a JSON object.*$") as caught:
        read(store, requests.create(requests.name("main"), body))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is not a JSON object"):
        read(store, requests.create(requests.name(), body))


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
    """It may yet be looked up, but for what was stopped: then there is nobody to be told."""
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
    record.facts.container_meta.name = "POD"
    assert about(store, f"POST /containers/{requests.name('POD')}/stop") is None


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]"])
def test_an_update_that_cannot_be_read(store: RecordStore, body: bytes) -> None:
    for shown in (CONTAINER, "unknown"):
        with pytest.raises(ValueError, match=r"^the update body is not a JSON object"):
            about(store, f"POST /containers/{shown}/update", body)
    # Nobody reads that of a sandbox.
    assert about(store, f"POST /containers/{SANDBOX}/update", body) is None


def test_a_request_makes_and_sets_what_it_is_for(store: RecordStore) -> None:
    started, removed = read(store, requests.start()), read(store, requests.remove(SANDBOX))
    assert started is not None
    assert removed is not None
    for asked in (started, removed):
        assert asked.rewrite(Merge(PodHookRequest())) == RewrittenRequest(None)
        with pytest.raises(TypeError, match="makes nothing"):
            asked.new_facts(None)
        with pytest.raises(TypeError, match="sets nothing"):
            asked.updated_facts(ContainerHookRequest())


# ---- what hooks change


def written(
    asked: InterceptedRequest | None, facts: Any, *wants: Any
) -> tuple[Any, list[str], Any]:
    """The body sent on, None if as it came; what was left out; and the facts as they are kept."""
    assert asked is not None
    merge = Merge(facts)
    for number, wish in enumerate(wants):
        response = respond(merge.facts, wish) if isinstance(wish, Patch) else wish
        merge.add(f"hooks{number}", response)
    message, left_out = asked.rewrite(merge)
    body = None if message is None else json.loads(message)
    return body, [str(field) for field in left_out], merge.facts


def made(
    store: RecordStore, request: requests.RuntimeRequest, *wants: Any
) -> tuple[Any, list[str], Any]:
    asked = read(store, request)
    assert asked is not None
    return written(asked, asked.new_facts(None), *wants)


def updated(
    store: RecordStore, request: requests.RuntimeRequest, known: ContainerHookRequest, *wants: Any
) -> tuple[Any, list[str], Any]:
    asked = read(store, request)
    assert asked is not None
    return written(asked, asked.updated_facts(known), *wants)


def limits(**wanted: Any) -> pb.ContainerResourceHookResponse:
    return pb.ContainerResourceHookResponse(container_resources=wanted)


def different(body: dict[str, Any], before: bytes) -> dict[str, Any]:
    """Members that are not as before."""
    return {name: value for name, value in body.items() if json.loads(before)[name] != value}


def test_nobody_wants_anything(store: RecordStore) -> None:
    known = ContainerHookRequest()
    for patches in ((), (Patch(),)):
        assert made(store, requests.create_sandbox(), *patches)[:2] == (None, [])
        assert made(store, requests.create_container(), *patches)[:2] == (None, [])
        update = requests.update(CpuShares=4)
        assert updated(store, update, known, *patches)[:2] == (None, [])


def test_a_sandbox_changed(store: RecordStore) -> None:
    request = requests.create_sandbox()
    patch = Patch(labels={"l": "1"}, annotations={"a": "1"}, cgroup_parent="/a.slice/a-b.slice")
    body, left_out, _ = made(store, request, patch)
    assert left_out == []
    assert set(different(body, request.body)) == {"Labels", "HostConfig"}
    assert body["Labels"] == bodies.SANDBOX_LABELS | {"l": "1", "annotation.a": "1"}
    # Docker's name of it: the last slice.
    assert body["HostConfig"]["CgroupParent"] == "a-b.slice"


def test_a_container_changed(store: RecordStore) -> None:
    request = requests.create_container()
    body, left_out, facts = made(
        store, request, Patch(env={"A": "2", "B": "3"}), limits(cpu_shares=7, cpuset_cpus="0-1")
    )
    assert left_out == []
    assert body["Env"] == ["A=2", *ENV[1:], "B=3"]
    before = json.loads(request.body)["HostConfig"]
    assert body["HostConfig"] == before | {"CpuShares": 7, "CpusetCpus": "0-1"}
    assert facts.container_resources.cpu_shares == 7


def test_what_docker_has_no_place_for(store: RecordStore) -> None:
    request = requests.create_container()
    unified = limits(unified={"memory.high": "1"})
    body, left_out, _ = made(store, request, unified)
    assert (body, left_out) == (None, ["unified[memory.high]"])
    body, left_out, _ = made(store, request, unified, limits(cpu_shares=7))
    assert left_out == ["unified[memory.high]"]
    assert body["HostConfig"]["CpuShares"] == 7
    assert "memory.high" not in json.dumps(body)
    own = Patch(labels={"io.kubernetes.docker.type": "container"})
    body, left_out, _ = made(store, requests.create_sandbox(), own)
    assert (body, left_out) == (None, ["labels[io.kubernetes.docker.type]"])


@pytest.mark.parametrize(
    ("given", "wanted", "sent"),
    [
        # As much memory as memory and swap: nothing is swapped, and stays so.
        ((64, 64), {"memory_limit_in_bytes": 128 * MIB}, (128, 128)),
        ((64, 64), {"memory_limit_in_bytes": 32 * MIB}, (32, 32)),
        # No limit: it gets no swap with its limit, either.
        ((0, 0), {"memory_limit_in_bytes": 128 * MIB}, (128, 128)),
        # Dockerd would refuse the limit above the one of both.
        ((64, 96), {"memory_limit_in_bytes": 128 * MIB}, (128, 128)),
        # Swap of its own, as far as dockerd allows it, stays.
        ((64, 256), {"memory_limit_in_bytes": 128 * MIB}, (128, 256)),
        ((64, -1), {"memory_limit_in_bytes": 128 * MIB}, (128, -1)),
        # Hooks that name both mean both.
        (
            (64, 64),
            {"memory_limit_in_bytes": 128 * MIB, "memory_swap_limit_in_bytes": 256 * MIB},
            (128, 256),
        ),
        ((64, 64), {"memory_swap_limit_in_bytes": 256 * MIB}, (64, 256)),
    ],
)
def test_swap_goes_along_with_memory(
    store: RecordStore, given: tuple[int, int], wanted: dict[str, int], sent: tuple[int, int]
) -> None:
    def size(number: int) -> int:
        return number * MIB if number > 0 else number

    memory, swap = map(size, given)
    request = requests.create_container(Memory=memory, MemorySwap=swap)
    body, left_out, facts = made(store, request, limits(**wanted))
    host = body["HostConfig"]
    assert left_out == []
    assert (host["Memory"], host["MemorySwap"]) == tuple(map(size, sent))
    assert facts.container_resources.memory_swap_limit_in_bytes == size(sent[1])
    # What is raised by an update is known from before.
    known = ContainerHookRequest(
        container_resources={
            "memory_limit_in_bytes": memory,
            "memory_swap_limit_in_bytes": swap,
        }
    )
    body, left_out, facts = updated(store, requests.update(CpuShares=4), known, limits(**wanted))
    assert left_out == []
    # What stays as it is need not be said.
    assert body["Memory"] in (size(sent[0]), 0)
    assert body["MemorySwap"] in (size(sent[1]), 0)
    resources = facts.container_resources
    assert resources.memory_limit_in_bytes == size(sent[0])
    assert resources.memory_swap_limit_in_bytes == size(sent[1])


def test_who_wanted_memory_wanted_swap(store: RecordStore) -> None:
    asked = read(store, requests.create_container())
    assert asked is not None
    merge = Merge(asked.new_facts(None))
    merge.add("first", limits(memory_limit_in_bytes=128 * MIB))
    merge.add("second", limits(memory_limit_in_bytes=256 * MIB))
    message, _ = asked.rewrite(merge)
    assert message is not None
    host = json.loads(message)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (128 * MIB, 128 * MIB)
    [conflict] = merge.conflicts
    assert (conflict.kept, conflict.overruled) == ("first", "second")


class TestUpdate:
    KNOWN = ContainerHookRequest(
        container_annotations={"c": "1"},
        container_resources={"cpu_shares": 2, "cpu_quota": 5000, "cpuset_cpus": "0-3"},
    )

    def test_facts(self, store: RecordStore) -> None:
        asked = read(store, requests.update(CpuQuota=7000, CpusetCpus="1"))
        assert asked is not None
        facts = asked.updated_facts(self.KNOWN)
        resources = facts.container_resources
        assert (resources.cpu_shares, resources.cpu_quota) == (2, 7000)
        assert resources.cpuset_cpus == "1"
        assert dict(facts.container_annotations) == {"c": "1"}
        # What is known is not changed before the update has succeeded.
        assert self.KNOWN.container_resources.cpu_quota == 5000

    def test_the_rest_of_the_body_stays(self, store: RecordStore) -> None:
        request = requests.update(CpuQuota=7000)
        unknown = b'{"Later":[1e3, 1e400],' + request.body[1:].rstrip()
        request = request._replace(body=unknown)
        body, left_out, _ = updated(store, request, self.KNOWN, limits(cpu_shares=7))
        assert left_out == []
        assert different(body, unknown) == {"CpuShares": 7}
        asked = read(store, request)
        assert asked is not None
        merge = Merge(asked.updated_facts(self.KNOWN))
        merge.add("hooks", limits(cpu_shares=7))
        message, _ = asked.rewrite(merge)
        assert message == unknown.replace(b'"CpuShares":0', b'"CpuShares":7')

    def test_what_it_cannot_do(self, store: RecordStore) -> None:
        patch = Patch(annotations={"c": "2"}, env={"A": "2"}, cgroup_parent="/x")
        body, left_out, _ = updated(
            store, requests.update(), self.KNOWN, patch, limits(oom_score_adj=5)
        )
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
        asked = read(store, requests.update())
        assert asked is not None
        merge = Merge(asked.updated_facts(self.KNOWN))
        merge.add("koordlet", echo)
        message, left_out = asked.rewrite(merge)
        assert message is not None
        assert [str(field) for field in left_out] == ["resources[cpuset_cpus]"]
        assert json.loads(message)["CpusetCpus"] == ""
        assert json.loads(message)["CpuShares"] == 7
        merge.undo(left_out)
        assert merge.facts.container_resources.cpuset_cpus == "0-3"
        assert merge.facts.container_resources.cpu_shares == 7
