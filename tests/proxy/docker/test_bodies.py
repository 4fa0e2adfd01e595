"""Create and update bodies: what hooks get, and what becomes of what they want."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proto import hook_pb2 as pb
from koord_proxy.docker.bodies import LIMITS, CreateBody, UpdateBody, tie_swap
from koord_proxy.rules.merge import (
    ANNOTATIONS,
    CGROUP_PARENT,
    ENV,
    LABELS,
    RESOURCES,
    SCALARS,
    UNIFIED,
    ContainerHookRequest,
    Field,
    Merge,
    PodHookRequest,
)
from koord_proxy.rules.records import RecordKind

from tests.support.docker_bodies import (
    CONTAINER_NAME,
    PARENT_PATH,
    SANDBOX,
    SANDBOX_NAME,
    SPEC,
    UID,
    container_create,
    sandbox_create,
    text,
    update,
)

CPUSET = Field(RESOURCES, "cpuset_cpus")
SWAP = Field(RESOURCES, "memory_swap_limit_in_bytes")
MIB = 1 << 20


def create(body: Any, name: str = CONTAINER_NAME) -> CreateBody:
    read = CreateBody.read(body if isinstance(body, bytes) else text(body), name)
    assert read is not None
    return read


def bare(**members: Any) -> dict[str, Any]:
    """The least that is a container of Kubernetes'."""
    return {"Labels": {"io.kubernetes.docker.type": "container"}, **members}


def hook_request_of(body: Any) -> ContainerHookRequest:
    return create(body).container.container_hook_request(None)


def merged(hook_request: Any, **response: Any) -> Merge:
    """A hook request, changed by a hook server that sends only its changes."""
    shape = (
        pb.PodSandboxHookResponse
        if isinstance(hook_request, PodHookRequest)
        else pb.ContainerResourceHookResponse
    )
    merge = Merge(hook_request)
    merge.add("hook", shape(**response))
    return merge


def written(body: Any, **response: Any) -> Any:
    request = create(body)
    merge = merged(request.container.container_hook_request(None), **response)
    return json.loads(request.written(merge.hook_request, merge.claims))


def sent(body: Any) -> bytes:
    """JSON as Go writes it, without the line feed behind it."""
    return text(body).rstrip()


# ---- what hooks get


def test_all_limits_have_a_name_in_docker() -> None:
    assert LIMITS.keys() == set(SCALARS)


def test_a_sandbox() -> None:
    container = create(sandbox_create(), SANDBOX_NAME).container
    assert (container.kind, container.sandbox) == (RecordKind.POD, "")
    labels = sandbox_create()["Labels"]
    assert container.pod_hook_request() == PodHookRequest(
        pod_meta={"name": "life", "namespace": "default", "uid": UID},
        labels={key: value for key, value in labels.items() if not key.startswith("annotation.")},
        annotations={"node.koordinator.sh/extended-resource-spec": SPEC},
        cgroup_parent=PARENT_PATH,
    )


def test_a_sandbox_of_a_runtime_class_made_anew() -> None:
    body = sandbox_create()
    body["HostConfig"]["Runtime"] = "kata"
    hook_request = create(
        body, f"k8s_POD_life_default_{UID}_7_0badcafe"
    ).container.pod_hook_request()
    assert (hook_request.runtime_handler, hook_request.pod_meta.attempt) == ("kata", 7)


def test_a_container_in_an_unknown_pod() -> None:
    container = create(container_create()).container
    assert (container.kind, container.sandbox) == (RecordKind.CONTAINER, SANDBOX)
    assert container.container_hook_request(None) == ContainerHookRequest(
        pod_meta={"name": "life", "namespace": "default", "uid": UID},
        container_meta={"name": "main", "attempt": 2},
        container_annotations={"io.kubernetes.container.hash": "3b8a6f5c"},
        pod_cgroup_parent=PARENT_PATH,
        container_resources={
            "cpu_period": 100000,
            "cpu_quota": 50000,
            "cpu_shares": 2,
            "memory_limit_in_bytes": 64 * MIB,
            "memory_swap_limit_in_bytes": 64 * MIB,
            "oom_score_adj": 1000,
        },
        container_envs={"A": "1", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "U": 'grüße "q" \\ <&>'},
    )


def test_a_container_in_a_known_pod() -> None:
    pod = PodHookRequest(
        pod_meta={"name": "life", "namespace": "default", "uid": UID, "attempt": 4},
        labels={"koordinator.sh/qosClass": "BE"},
        annotations={"a": "b"},
        cgroup_parent="/other",
        resources={"cpu_shares": 7},
    )
    hook_request = create(container_create()).container.container_hook_request(pod)
    assert hook_request.pod_meta == pod.pod_meta
    assert (hook_request.pod_labels, hook_request.pod_annotations) == (pod.labels, pod.annotations)
    assert hook_request.pod_resources == pod.resources
    assert hook_request.pod_cgroup_parent == PARENT_PATH
    body = container_create()
    body["HostConfig"]["CgroupParent"] = ""
    pod.ClearField("resources")
    hook_request = create(body).container.container_hook_request(pod)
    assert hook_request.pod_cgroup_parent == "/other"
    assert not hook_request.HasField("pod_resources")


@pytest.mark.parametrize("empty", [{}, {"HostConfig": None, "Env": None}, {"HostConfig": {}}])
def test_a_container_without_anything(empty: dict[str, Any]) -> None:
    hook_request = hook_request_of(bare(**empty))
    assert hook_request.HasField("container_resources")
    assert hook_request.container_resources == pb.LinuxContainerResources()
    assert not hook_request.container_envs


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("k8s_foo", {"io.kubernetes.docker.type": "container"}),
        (CONTAINER_NAME, None),
        (CONTAINER_NAME, {"io.kubernetes.sandbox.id": SANDBOX}),
    ],
)
def test_nothing_of_kubernetes(name: str, labels: dict[str, str] | None) -> None:
    assert CreateBody.read(text({"Image": "busybox", "Labels": labels}), name) is None


def test_limits_that_docker_would_refuse_are_not_reported() -> None:
    host = {"Memory": "1", "CpuShares": 1.5, "CpuPeriod": 1 << 63, "CpusetCpus": 3}
    body = text(bare(HostConfig={**host, "CpuQuota": -1})).replace(b"-1", b'-1,"OomScoreAdj":1e1')
    assert hook_request_of(body).container_resources == pb.LinuxContainerResources(cpu_quota=-1)


def test_variables_that_cannot_be_reported() -> None:
    env = ["A=1", "UNSET", "=x", "B=", "A=2=3", 7, None]
    body = text(bare(Env=env)).replace(b"7", b'"C=\xff"')
    assert dict(hook_request_of(body).container_envs) == {"A": "2=3", "B": ""}


def test_labels_that_cannot_be_reported() -> None:
    reported = bare()["Labels"] | {"annotation.b": None, "annotation.c": 7, "annotation.d": ""}
    body = text({"Labels": reported}).replace(b"7", b'"\xff"')
    assert dict(hook_request_of(body).container_annotations) == {"d": ""}


# ---- what becomes of what hooks want


@pytest.mark.parametrize(
    ("body", "name"), [(sandbox_create, SANDBOX_NAME), (container_create, CONTAINER_NAME)]
)
def test_nothing_wanted_nothing_changed(body: Callable[[], Any], name: str) -> None:
    request = create(body(), name)
    container = request.container
    hook_request = (
        container.pod_hook_request()
        if container.kind is RecordKind.POD
        else hook_request_of(body())
    )
    assert request.written(hook_request, {}) == sent(body())


def test_unknown_values_stay_as_they_came() -> None:
    later = b'{"Later":{"a" : [1e400, %s,"\xff"]},' % (b"9" * 40)
    body = sent({"HostConfig": {"Memory": 5}, **bare(Env=["A=1", "B"])}).replace(b"{", later, 2)
    wanted = {"container_resources": {"cpu_quota": 7}, "container_envs": {"A": "2"}}
    request = create(body)
    merge = merged(hook_request_of(body), **wanted)
    after = request.written(merge.hook_request, merge.claims)
    assert after == body.replace(b'"Memory":5', b'"Memory":5,"CpuQuota":7').replace(b"A=1", b"A=2")


def test_a_sandbox_is_changed() -> None:
    request = create(sandbox_create(), SANDBOX_NAME)
    merge = merged(
        request.container.pod_hook_request(),
        labels={"koordinator.sh/qosClass": "LS", "new": "ä<"},
        annotations={"node.koordinator.sh/extended-resource-spec": "{}", "note": ""},
        cgroup_parent="/kubepods.slice/kubepods-x.slice",
    )
    expected = sandbox_create()
    expected["Labels"] |= {
        "koordinator.sh/qosClass": "LS",
        "new": "ä<",
        "annotation.node.koordinator.sh/extended-resource-spec": "{}",
        "annotation.note": "",
    }
    expected["HostConfig"]["CgroupParent"] = "kubepods-x.slice"
    assert sent(json.loads(request.written(merge.hook_request, merge.claims))) == sent(expected)


def test_a_container_is_changed() -> None:
    changed = written(
        container_create(),
        container_resources={"cpu_quota": -1, "cpuset_cpus": "0-3", "oom_score_adj": 500},
        pod_cgroup_parent="/kubepods.slice/kubepods-x.slice",
        container_envs={"A": 'a"b', "Z": "z", "B": "", "KUBERNETES_SERVICE_HOST": "10.96.0.1"},
    )
    expected = container_create()
    expected["HostConfig"] |= {
        "CpuQuota": -1,
        "CpusetCpus": "0-3",
        "OomScoreAdj": 500,
        "CgroupParent": "kubepods-x.slice",
    }
    expected["Env"] = ['A=a"b', *expected["Env"][1:], "B=", "Z=z"]
    assert sent(changed) == sent(expected)


@pytest.mark.parametrize("empty", [{}, {"HostConfig": None, "Env": None}])
def test_sections_that_are_not_there_are_made(empty: dict[str, Any]) -> None:
    changed = written(
        bare(**empty),
        container_resources={"cpu_shares": 2},
        container_envs={"A": "1"},
        container_annotations={"x": "y"},
        pod_cgroup_parent="/kubepods/x",
    )
    assert changed["HostConfig"] == {"CpuShares": 2, "CgroupParent": "/kubepods/x"}
    assert changed["Env"] == ["A=1"]
    assert changed["Labels"] == {**bare()["Labels"], "annotation.x": "y"}


def test_every_occurrence_of_a_variable_is_changed() -> None:
    env = ["A=1", "A", "AB=1", "A=2", "=A"]
    changed = written(bare(Env=env), container_envs={"A": "3"})
    assert changed["Env"] == ["A=3", "A", "AB=1", "A=3", "=A"]


def test_a_cpuset_is_cleared() -> None:
    request = create(bare(HostConfig={"CpusetCpus": "0", "CpuShares": 2}))
    hook_request = request.container.container_hook_request(None)
    hook_request.container_resources.cpuset_cpus = ""
    after = json.loads(request.written(hook_request, {CPUSET}))
    assert after["HostConfig"] == {"CpusetCpus": "", "CpuShares": 2}


@pytest.mark.parametrize(
    "field",
    [
        Field(UNIFIED, "memory.high"),
        Field(ENV, "A=B"),
        Field(ENV, ""),
        Field(LABELS, "io.kubernetes.docker.type"),
        Field(LABELS, "io.kubernetes.sandbox.id"),
    ],
)
def test_what_has_no_place_is_left_out(field: Field) -> None:
    body = sent(container_create())
    request = create(body)
    hook_request = hook_request_of(body)
    hook_request.container_resources.cpuset_cpus = "1"
    assert request.left_out(hook_request, [CPUSET, field]) == (field,)
    assert (
        json.loads(request.written(hook_request, [CPUSET, field]))["HostConfig"]["CpusetCpus"]
        == "1"
    )
    assert request.written(hook_request, [field]) == body


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", "the create body is not a JSON object"),
        (b'{"HostConfig":5}', '"HostConfig" of the create body is not a JSON object'),
        (b'{"Labels":[]}', '"Labels" of the create body is not a JSON object'),
        (text(bare(Env={})), '"Env" of the create body is not a JSON array'),
    ],
)
def test_bodies_that_cannot_be_read(body: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}: .+$"):
        CreateBody.read(body, CONTAINER_NAME)


@given(st.binary())
def test_any_bytes_are_refused_at_most(body: bytes) -> None:
    for read in (lambda: CreateBody.read(body, CONTAINER_NAME), lambda: UpdateBody(body)):
        try:
            read()
        except ValueError as error:
            problem = str(error)
        else:
            continue
        assert "\n" not in problem


NAMES = st.text(max_size=8)
VARIABLES = st.dictionaries(NAMES.filter(lambda name: name and "=" not in name), NAMES, max_size=3)
POSITIVE = st.integers(1, 2**63 - 1)
WISHES = {
    "container_annotations": st.dictionaries(NAMES, NAMES, max_size=3),
    "container_envs": VARIABLES,
    "pod_cgroup_parent": st.from_regex(r"(/[a-z]+\.slice/[a-z]+(-[a-z]+)\.slice)?", fullmatch=True),
    "container_resources": st.fixed_dictionaries(
        {},
        optional={
            "cpu_period": POSITIVE,
            "cpu_quota": st.integers(-(2**63), 2**63 - 1),
            "memory_limit_in_bytes": POSITIVE,
            "memory_swap_limit_in_bytes": POSITIVE,
            "oom_score_adj": st.integers(-1000, 1000),
            "cpuset_cpus": NAMES,
            "cpuset_mems": NAMES,
        },
    ),
}


@given(st.sampled_from((container_create, bare)), st.fixed_dictionaries({}, optional=WISHES))
def test_what_is_wanted_is_what_is_read_again(body: Any, response: dict[str, Any]) -> None:
    if parent := response.get("pod_cgroup_parent"):
        # Of a path docker takes the last part, and that says where it lies.
        response["pod_cgroup_parent"] = hook_request_of(
            bare(HostConfig={"CgroupParent": parent.rpartition("/")[2]})
        ).pod_cgroup_parent
    request = create(body())
    merge = merged(request.container.container_hook_request(None), **response)
    again = create(request.written(merge.hook_request, merge.claims))
    assert again.container.container_hook_request(None) == merge.hook_request


# ---- updates


def stored() -> ContainerHookRequest:
    return hook_request_of(container_create())


def test_an_update_is_laid_over_what_is_stored() -> None:
    known = stored()
    body = update(CpuShares=300, Memory=80 * MIB, MemorySwap=80 * MIB, CpusetCpus="0")
    expected = stored()
    expected.container_resources.MergeFrom(
        pb.LinuxContainerResources(
            cpu_shares=300,
            memory_limit_in_bytes=80 * MIB,
            memory_swap_limit_in_bytes=80 * MIB,
            cpuset_cpus="0",
        )
    )
    # Docker's updates know no such field.
    body["OomScoreAdj"] = 7
    assert UpdateBody(text(body)).updated_hook_request(known) == expected
    assert known == stored()


def test_an_update_that_sets_nothing() -> None:
    assert UpdateBody(text(update())).updated_hook_request(stored()) == stored()
    assert UpdateBody(b"{}").updated_hook_request(stored()) == stored()


def test_an_update_is_changed_where_it_was_wanted() -> None:
    body = sent(update(CpusetCpus="0")).replace(b"{", b'{"Later":[1e400, 7],', 1)
    request = UpdateBody(body)
    assert request.written(stored(), {}) == body
    wants = {"cpu_quota": -1, "cpuset_cpus": "1"}
    merge = merged(request.updated_hook_request(stored()), container_resources=wants)
    after = body.replace(b'"CpusetCpus":"0"', b'"CpusetCpus":"1"')
    after = after.replace(b'"CpuQuota":0', b'"CpuQuota":-1')
    assert request.written(merge.hook_request, merge.claims) == after


def test_what_an_update_cannot_do_is_left_out() -> None:
    body = sent(update())
    request, hook_request = UpdateBody(body), stored()
    impossible = (
        Field(RESOURCES, "oom_score_adj"),
        Field(RESOURCES, "cpuset_cpus"),
        Field(ENV, "A"),
        Field(ANNOTATIONS, "x"),
        Field(CGROUP_PARENT),
        Field(UNIFIED, "memory.high"),
    )
    claims = (*impossible, Field(RESOURCES, "cpu_quota"))
    assert request.left_out(hook_request, claims) == impossible
    assert request.written(hook_request, claims) == body.replace(
        b'"CpuQuota":0', b'"CpuQuota":50000'
    )


def test_updates_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match=r"^the update body is not a JSON object: .+$"):
        UpdateBody(b"null")


# ---- the swap limit


@pytest.mark.parametrize(
    ("memory", "swap", "wanted", "expected"),
    [
        # As cri-dockerd makes them.
        (0, 0, {"memory_limit_in_bytes": 64}, 64),
        (64, 64, {"memory_limit_in_bytes": 128}, 128),
        (128, 128, {"memory_limit_in_bytes": 64}, 64),
        # Somebody wants them apart.
        (64, 64, {"memory_limit_in_bytes": 32, "memory_swap_limit_in_bytes": 48}, 48),
        (64, 128, {"memory_limit_in_bytes": 32}, 128),
        (64, 128, {"memory_limit_in_bytes": 128}, 128),
        (64, -1, {"memory_limit_in_bytes": 128}, -1),
        (64, 0, {"memory_limit_in_bytes": 128}, 0),
        # Docker would refuse 256 with 128.
        (64, 128, {"memory_limit_in_bytes": 256}, 256),
        # The memory limit stays.
        (64, 64, {"cpu_shares": 5}, 64),
        (64, 64, {"memory_swap_limit_in_bytes": 128}, 128),
    ],
)
def test_swap_goes_along_with_memory(
    memory: int, swap: int, wanted: dict[str, int], expected: int
) -> None:
    before = hook_request_of(bare(HostConfig={"Memory": memory, "MemorySwap": swap}))
    hook_request = ContainerHookRequest()
    hook_request.CopyFrom(before)
    merge = merged(hook_request, container_resources=wanted)
    claims = tie_swap(before, hook_request, merge.claims)
    assert hook_request.container_resources.memory_swap_limit_in_bytes == expected
    assert claims == merge.claims | ({SWAP: "hook"} if expected != swap else {})
    assert before.container_resources.memory_limit_in_bytes == memory
