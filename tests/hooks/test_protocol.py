from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks import protocol
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_proto import hook_pb2 as pb

VIEW = NodeView()
NOBODY = HookRunner([])

_NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
_WORDS = st.text(st.characters(codec="utf-8"), max_size=5)
_MAPS = st.dictionaries(_WORDS, _WORDS, max_size=3)
_LIMITS = st.builds(
    pb.LinuxContainerResources,
    cpu_period=_NUMBERS,
    cpu_quota=_NUMBERS,
    cpu_shares=_NUMBERS,
    memory_limit_in_bytes=_NUMBERS,
    oom_score_adj=_NUMBERS,
    cpuset_cpus=_WORDS,
    cpuset_mems=_WORDS,
    unified=_MAPS,
    hugepage_limits=st.lists(st.builds(pb.HugepageLimit, page_size=_WORDS, limit=st.just(7))),
)
_POD_REQUESTS = st.builds(
    pb.PodSandboxHookRequest,
    labels=_MAPS,
    annotations=_MAPS,
    cgroup_parent=_WORDS,
    resources=st.none() | _LIMITS,
)
_CONTAINER_REQUESTS = st.builds(
    pb.ContainerResourceHookRequest,
    container_annotations=_MAPS,
    container_envs=_MAPS,
    pod_cgroup_parent=_WORDS,
    container_resources=st.none() | _LIMITS,
)


class Gives:
    """A plugin that wants the same patch for every container."""

    def __init__(self, patch: Patch) -> None:
        self.patch = patch

    @hookimpl
    def pre_create_container(self) -> Patch:
        return self.patch


@pytest.mark.parametrize("stage", list(Stage))
def test_message_types_are_the_services(stage: Stage) -> None:
    method = pb.DESCRIPTOR.services_by_name["RuntimeHookService"].methods_by_name[f"{stage}Hook"]
    assert protocol.request_type(stage).DESCRIPTOR is method.input_type
    assert protocol.response_type(stage).DESCRIPTOR is method.output_type


@given(_POD_REQUESTS)
def test_a_pod_nobody_changes_is_echoed(request: pb.PodSandboxHookRequest) -> None:
    response, outcome = protocol.answer(NOBODY, Stage.PRE_RUN_POD_SANDBOX, request, VIEW)
    assert outcome.patch == Patch()
    assert not protocol.changes(request, response)
    assert response == pb.PodSandboxHookResponse(
        labels=request.labels,
        annotations=request.annotations,
        cgroup_parent=request.cgroup_parent,
        resources=request.resources if request.HasField("resources") else None,
    )


@given(_CONTAINER_REQUESTS)
def test_a_container_nobody_changes_is_echoed(request: pb.ContainerResourceHookRequest) -> None:
    response, _ = protocol.answer(NOBODY, Stage.POST_STOP_CONTAINER, request, VIEW)
    assert not protocol.changes(request, response)
    resources = request.container_resources
    assert response == pb.ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        container_envs=request.container_envs,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_resources=resources if request.HasField("container_resources") else None,
    )


@given(_CONTAINER_REQUESTS, st.integers(2, 262144))
def test_a_change_leaves_the_rest_of_the_echo(
    request: pb.ContainerResourceHookRequest, shares: int
) -> None:
    gives = Gives(Patch(resources=LinuxResources(cpu_shares=shares, cpuset_cpus="")))
    asked = HookRunner([("a", gives)])
    response, _ = protocol.answer(asked, Stage.PRE_CREATE_CONTAINER, request, VIEW)
    assert isinstance(response, pb.ContainerResourceHookResponse)
    assert response.container_resources.cpu_shares == shares
    assert response.container_resources.cpuset_cpus == ""
    response.container_resources.cpu_shares = request.container_resources.cpu_shares
    response.container_resources.cpuset_cpus = request.container_resources.cpuset_cpus
    assert not protocol.changes(request, response)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"cpu_period": 1}, {"cpu_period": 1}),
        ({"cpu_quota": -1}, {"cpu_quota": -1}),
        ({"cpu_shares": 2}, {"cpu_shares": 2}),
        ({"memory_limit": 3}, {"memory_limit_in_bytes": 3}),
        ({"memory_swap_limit": 4}, {"memory_swap_limit_in_bytes": 4}),
        ({"oom_score_adj": -998}, {"oom_score_adj": -998}),
        ({"cpuset_cpus": "0-3"}, {"cpuset_cpus": "0-3"}),
        ({"cpuset_mems": "0"}, {"cpuset_mems": "0"}),
        ({"unified": {"memory.high": "5"}}, {"unified": {"memory.high": "5"}}),
    ],
)
def test_limits_go_to_the_wire_and_back(wanted: dict[str, Any], expected: dict[str, Any]) -> None:
    message = pb.LinuxContainerResources()
    limits = LinuxResources(**wanted)
    protocol.lay_over(message, limits)
    assert message == pb.LinuxContainerResources(**expected)
    assert protocol.to_resources(message) == limits


def test_a_hugepage_limit_replaces_the_one_of_its_size() -> None:
    message = pb.LinuxContainerResources(hugepage_limits=[pb.HugepageLimit(page_size="2MB")])
    protocol.lay_over(message, LinuxResources(hugepage_limits={"2MB": 4, "1GB": 1}))
    assert [(limit.page_size, limit.limit) for limit in message.hugepage_limits] == [
        ("2MB", 4),
        ("1GB", 1),
    ]


META = pb.PodSandboxMetadata(name="web", namespace="shop", uid="u")


def test_a_pod_is_read_whole() -> None:
    request = pb.PodSandboxHookRequest(
        pod_meta=META,
        runtime_handler="runc",
        labels={"l": "1"},
        annotations={"a": "2"},
        cgroup_parent="/kubepods",
        overhead=pb.LinuxContainerResources(cpu_shares=3),
        resources=pb.LinuxContainerResources(cpu_shares=4),
    )
    overhead, resources = LinuxResources(cpu_shares=3), LinuxResources(cpu_shares=4)
    assert protocol.to_pod(request) == Pod(
        *("web", "shop", "u", {"l": "1"}, {"a": "2"}, "/kubepods"),
        runtime_handler="runc",
        overhead=overhead,
        resources=resources,
    )


def test_a_container_is_read_with_its_pod() -> None:
    request = pb.ContainerResourceHookRequest(
        pod_meta=META,
        container_meta=pb.ContainerMetadata(name="main", id="c1"),
        container_annotations={"a": "1"},
        container_resources=pb.LinuxContainerResources(cpu_shares=3),
        pod_resources=pb.LinuxContainerResources(cpu_shares=4),
        pod_annotations={"b": "2"},
        pod_labels={"c": "3"},
        pod_cgroup_parent="/kubepods",
        container_envs={"E": "1"},
    )
    limits = LinuxResources(cpu_shares=4)
    pod = Pod("web", "shop", "u", {"c": "3"}, {"b": "2"}, "/kubepods", resources=limits)
    own = {"annotations": {"a": "1"}, "env": {"E": "1"}}
    found = protocol.to_container(request)
    assert found == Container(pod, "main", "c1", resources=LinuxResources(cpu_shares=3), **own)


def test_everything_a_pod_patch_holds_is_answered() -> None:
    limits = LinuxResources(cpu_shares=9)
    patch = Patch({"l": "2"}, {"a": "1"}, cgroup_parent="/new", resources=limits)
    request = pb.PodSandboxHookRequest(labels={"l": "1", "k": "1"}, cgroup_parent="/old")
    response = protocol.respond(request, patch)
    assert response == pb.PodSandboxHookResponse(
        labels={"l": "2", "k": "1"},
        annotations={"a": "1"},
        cgroup_parent="/new",
        resources=pb.LinuxContainerResources(cpu_shares=9),
    )
    assert protocol.changes(request, response)


def test_everything_a_container_patch_holds_is_answered() -> None:
    patch = Patch(annotations={"a": "1"}, env={"E": "2"}, cgroup_parent="/new")
    request = pb.ContainerResourceHookRequest(container_envs={"E": "1", "F": "1"})
    response = protocol.respond(request, patch)
    assert response == pb.ContainerResourceHookResponse(
        container_annotations={"a": "1"},
        container_envs={"E": "2", "F": "1"},
        pod_cgroup_parent="/new",
    )
    assert protocol.changes(request, response)
