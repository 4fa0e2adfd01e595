"""What a hook response changes: Koordinator's rules, and where ours differ on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.protocol import respond
from koord_model.patch import Patch
from koord_model.resources import SCALARS as MODEL_SCALARS
from koord_model.resources import LinuxResources
from koord_proto import hook_pb2 as pb
from koord_proxy.rules import merge
from koord_proxy.rules.merge import Field, HookConflict, Merge, desired_values, echoes

FULL = {
    "cpu_period": 100_000,
    "cpu_quota": 50_000,
    "cpu_shares": 512,
    "memory_limit_in_bytes": 1 << 30,
    "memory_swap_limit_in_bytes": 2 << 30,
    "oom_score_adj": 999,
    "cpuset_cpus": "0-3",
    "cpuset_mems": "0",
}


def container(**resources: Any) -> pb.ContainerResourceHookRequest:
    """A container as a kubelet asks for it, with all limits set unless given."""
    return pb.ContainerResourceHookRequest(
        pod_meta=pb.PodSandboxMetadata(name="job", namespace="batch", uid="u"),
        container_annotations={"kept": "1"},
        container_envs={"HOME": "/", "EMPTY": ""},
        container_resources=pb.LinuxContainerResources(**{**FULL, **resources}),
        pod_cgroup_parent="/kubepods/pod1",
    )


def echo(hook_request: pb.ContainerResourceHookRequest, **changes: Any) -> Any:
    """The answer of a server in the Go koordlet's way: all that was asked, with changes."""
    response = respond(hook_request, Patch())
    for name, value in changes.items():
        setattr(response.container_resources, name, value)
    return response


def partial(**resources: Any) -> pb.ContainerResourceHookResponse:
    """The answer of a server that sends only its changes."""
    return pb.ContainerResourceHookResponse(
        container_resources=pb.LinuxContainerResources(**resources)
    )


def desired(hook_request: Any, response: Any) -> dict[str, Any]:
    return {str(field): value for field, value in desired_values(hook_request, response)}


class TestScalars:
    @pytest.mark.parametrize(
        ("name", "value", "taken"),
        [
            *[
                (name, value, value > 0)
                for name in (
                    "cpu_period",
                    "cpu_shares",
                    "memory_limit_in_bytes",
                    "memory_swap_limit_in_bytes",
                )
                for value in (-1, 0, 7)
            ],
            ("cpu_quota", -1, True),
            ("cpu_quota", 0, False),
            ("cpu_quota", 25_000, True),
            ("oom_score_adj", -1001, False),
            ("oom_score_adj", -1000, True),
            ("oom_score_adj", 1000, True),
            ("oom_score_adj", 1001, False),
            ("cpuset_cpus", "4-7", True),
            ("cpuset_mems", "0-1", True),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("style", ["echo", "partial"])
    def test_what_is_taken_from_a_response(self, style, name, value, taken):
        hook_request = container()
        response = (
            echo(hook_request, **{name: value}) if style == "echo" else partial(**{name: value})
        )
        assert desired(hook_request, response) == ({f"resources[{name}]": value} if taken else {})

    @pytest.mark.parametrize("name", merge.SCALARS)
    def test_the_value_asked_with_is_no_wish(self, name):
        assert desired(container(), partial(**{name: FULL[name]})) == {}

    @pytest.mark.parametrize(
        ("name", "nothing"), [("oom_score_adj", 0), ("cpuset_cpus", ""), ("cpuset_mems", "")]
    )
    def test_only_a_server_that_echoes_can_clear(self, name, nothing):
        hook_request = container()
        assert desired(hook_request, partial(cpu_shares=2)) == {"resources[cpu_shares]": 2}
        assert desired(hook_request, echo(hook_request, **{name: nothing})) == {
            f"resources[{name}]": nothing
        }

    def test_a_response_without_resources_wants_none(self):
        hook_request = container()
        response = echo(hook_request)
        response.ClearField("container_resources")
        assert desired(hook_request, response) == {}

    def test_hugepages_are_the_requests(self):
        response = partial(hugepage_limits=[pb.HugepageLimit(page_size="2Mi", limit=1)])
        assert desired(container(), response) == {}

    def test_a_request_without_resources_can_be_given_some(self):
        hook_request = pb.ContainerResourceHookRequest()
        response = partial(cpu_shares=2, cpuset_cpus="1", oom_score_adj=5, unified={"a": "1"})
        assert Merge(hook_request).add("s", response)
        assert hook_request.container_resources == response.container_resources


class TestEchoes:
    def test_all_that_was_asked_came_back(self):
        hook_request = container(unified={"memory.high": "1"})
        response = echo(hook_request)
        for name in ("oom_score_adj", "cpuset_cpus", "cpuset_mems"):
            response.container_resources.ClearField(name)
        assert echoes(hook_request, response)

    def test_with_every_value_changed(self):
        hook_request = container(unified={"memory.high": "1"})
        response = echo(hook_request, cpu_shares=9, cpu_quota=-1)
        response.container_annotations["kept"] = ""
        response.container_envs["HOME"] = "/root"
        response.container_resources.unified["memory.high"] = "max"
        response.pod_cgroup_parent = "/elsewhere"
        assert echoes(hook_request, response)

    @pytest.mark.parametrize(
        "missing",
        [
            lambda response: response.container_annotations.clear(),
            lambda response: response.container_envs.pop("EMPTY"),
            lambda response: response.ClearField("pod_cgroup_parent"),
            lambda response: response.container_resources.unified.clear(),
            *[
                lambda response, name=name: response.container_resources.ClearField(name)
                for name in (
                    "cpu_period",
                    "cpu_quota",
                    "cpu_shares",
                    "memory_limit_in_bytes",
                    "memory_swap_limit_in_bytes",
                )
            ],
        ],
        ids=["annotations", "one env", "parent", "unified", *list(FULL)[:5]],
    )
    def test_not_if_anything_is_missing(self, missing):
        hook_request = container(unified={"memory.high": "1"})
        response = echo(hook_request)
        missing(response)
        assert not echoes(hook_request, response)
        response.container_resources.cpuset_cpus = ""
        assert "resources[cpuset_cpus]" not in desired(hook_request, response)

    @pytest.mark.parametrize(
        "hook_request",
        [
            pb.ContainerResourceHookRequest(),
            pb.ContainerResourceHookRequest(
                container_resources=pb.LinuxContainerResources(cpuset_cpus="0-3", oom_score_adj=1)
            ),
        ],
        ids=["nothing", "only what may be cleared"],
    )
    def test_nothing_to_echo(self, hook_request):
        assert not echoes(hook_request, respond(hook_request, Patch()))
        assert desired(hook_request, partial()) == {}

    def test_a_parent_where_there_was_none_is_still_an_echo(self):
        hook_request = container()
        hook_request.pod_cgroup_parent = ""
        response = respond(
            hook_request, Patch(cgroup_parent="/p", resources=LinuxResources(cpuset_cpus=""))
        )
        assert desired(hook_request, response) == {
            "resources[cpuset_cpus]": "",
            "cgroup_parent": "/p",
        }


class TestMaps:
    def test_unified_by_key(self):
        hook_request = container(unified={"a": "1", "b": "2"})
        assert desired(hook_request, partial(unified={"b": "3", "c": ""})) == {
            "unified[b]": "3",
            "unified[c]": "",
        }

    def test_a_pods_resources_are_not_for_the_runtime(self):
        response = pb.PodSandboxHookResponse(resources=pb.LinuxContainerResources(cpu_shares=9))
        assert desired(pb.PodSandboxHookRequest(), response) == {}


@pytest.mark.parametrize(("wanted", "taken"), [("", False), ("/p", False), ("/q", True)])
def test_cgroup_parent(wanted, taken):
    expected = {"cgroup_parent": wanted} if taken else {}
    pod = pb.PodSandboxHookRequest(cgroup_parent="/p")
    assert desired(pod, pb.PodSandboxHookResponse(cgroup_parent=wanted)) == expected
    one = pb.ContainerResourceHookRequest(pod_cgroup_parent="/p")
    assert desired(one, pb.ContainerResourceHookResponse(pod_cgroup_parent=wanted)) == expected


class TestSeveralServers:
    def test_each_sees_what_the_ones_before_it_want(self):
        hook_request = container()
        merged = Merge(hook_request)
        assert merged.add("a", echo(hook_request, cpu_shares=7))
        assert hook_request.container_resources.cpu_shares == 7
        # Asked with 7, it echoes 7.
        assert merged.add("b", echo(hook_request, cpu_quota=-1))
        assert not merged.add("c", echo(hook_request))
        assert merged.claims == {
            Field("resources", "cpu_shares"): "a",
            Field("resources", "cpu_quota"): "b",
        }
        assert merged.conflicts == []

    def test_the_first_wins_and_the_other_is_named(self):
        hook_request = container()
        merged = Merge(hook_request)
        merged.add("a", partial(cpu_shares=7))
        assert merged.add("b", partial(cpu_shares=8, cpu_quota=-1))
        assert merged.conflicts == [HookConflict(Field("resources", "cpu_shares"), "a", "b")]
        assert hook_request.container_resources.cpu_shares == 7
        assert hook_request.container_resources.cpu_quota == -1
        # Nothing but what somebody else has is no change.
        assert not merged.add("c", partial(cpu_shares=9))

    def test_the_same_value_is_no_conflict(self):
        merged = Merge(container())
        assert merged.add("a", partial(cpuset_cpus="7"))
        assert not merged.add("b", partial(cpuset_cpus="7"))
        assert merged.conflicts == []

    def test_back_to_what_it_was_is_a_conflict(self):
        hook_request = container()
        merged = Merge(hook_request)
        merged.add("a", echo(hook_request, cpuset_cpus=""))
        merged.add("b", partial(cpuset_cpus="0-3"))
        assert hook_request.container_resources.cpuset_cpus == ""
        assert merged.conflicts == [HookConflict(Field("resources", "cpuset_cpus"), "a", "b")]

    def test_conflicts_are_by_key(self):
        hook_request = pb.PodSandboxHookRequest()
        merged = Merge(hook_request)
        merged.add("a", pb.PodSandboxHookResponse(labels={"x": "1", "y": "1"}, cgroup_parent="/a"))
        merged.add("b", pb.PodSandboxHookResponse(labels={"x": "2", "z": "2"}, cgroup_parent="/b"))
        assert dict(hook_request.labels) == {"x": "1", "y": "1", "z": "2"}
        assert [str(conflict.field) for conflict in merged.conflicts] == [
            "labels[x]",
            "cgroup_parent",
        ]


# ---- with our own hook servers, whatever they want

_NUMBERS = st.sampled_from([-(1 << 63), -1, 0, 1, 2, 1000, (1 << 63) - 1])
_WORDS = st.sampled_from(["", "a", "ä", "0-3"])
_MAPS = st.dictionaries(_WORDS, _WORDS, max_size=2)
_LIMITS = st.builds(
    pb.LinuxContainerResources,
    cpu_period=_NUMBERS,
    cpu_quota=_NUMBERS,
    cpu_shares=_NUMBERS,
    memory_limit_in_bytes=_NUMBERS,
    memory_swap_limit_in_bytes=_NUMBERS,
    oom_score_adj=_NUMBERS,
    cpuset_cpus=_WORDS,
    cpuset_mems=_WORDS,
    unified=_MAPS,
    hugepage_limits=st.sampled_from([[], [pb.HugepageLimit(page_size="2Mi", limit=7)]]),
)
_PODS = st.builds(
    pb.PodSandboxHookRequest,
    labels=_MAPS,
    annotations=_MAPS,
    cgroup_parent=_WORDS,
    resources=st.none() | _LIMITS,
)
_CONTAINERS = st.builds(
    pb.ContainerResourceHookRequest,
    container_annotations=_MAPS,
    container_envs=_MAPS,
    pod_annotations=_MAPS,
    pod_cgroup_parent=_WORDS,
    container_resources=st.none() | _LIMITS,
)
_positive = st.none() | _NUMBERS.filter(lambda number: number > 0)
_PATCHES = st.builds(
    Patch,
    labels=_MAPS,
    annotations=_MAPS,
    env=_MAPS,
    # To have no parent is nothing a hook can want.
    cgroup_parent=st.none() | _WORDS.filter(bool),
    resources=st.builds(
        LinuxResources,
        cpu_period=_positive,
        cpu_quota=st.none() | _NUMBERS.filter(bool),
        cpu_shares=_positive,
        memory_limit=_positive,
        memory_swap_limit=_positive,
        oom_score_adj=st.none() | st.sampled_from([-1000, -1, 0, 1, 1000]),
        cpuset_cpus=st.none() | _WORDS,
        cpuset_mems=st.none() | _WORDS,
        unified=_MAPS,
    ),
)
_WIRE = {"memory_limit": "memory_limit_in_bytes", "memory_swap_limit": "memory_swap_limit_in_bytes"}


@given(_PODS | _CONTAINERS)
def test_an_exact_echo_wants_nothing(hook_request: Any) -> None:
    assert desired(hook_request, respond(hook_request, Patch())) == {}


@given(_PODS, _PATCHES)
def test_a_pods_patch_arrives_as_it_is(hook_request: Any, patch: Patch) -> None:
    expected = type(hook_request).FromString(hook_request.SerializeToString())
    expected.labels.update(patch.labels)
    expected.annotations.update(patch.annotations)
    expected.cgroup_parent = patch.cgroup_parent or expected.cgroup_parent
    Merge(hook_request).add("s", respond(hook_request, patch))
    assert hook_request == expected


@given(_CONTAINERS, _PATCHES)
def test_a_containers_patch_arrives_as_it_is(hook_request: Any, patch: Patch) -> None:
    known = hook_request.container_resources
    # A request that has nothing which comes back cannot be seen to be echoed,
    # and then only what is not at its default can be wanted.
    echoed = echoes(hook_request, respond(hook_request, Patch()))
    expected = type(hook_request).FromString(hook_request.SerializeToString())
    expected.container_annotations.update(patch.annotations)
    expected.container_envs.update(patch.env)
    expected.pod_cgroup_parent = patch.cgroup_parent or expected.pod_cgroup_parent
    for name in MODEL_SCALARS:
        value = getattr(patch.resources, name)
        wire = _WIRE.get(name, name)
        if value is not None and value != getattr(known, wire) and (value or echoed):
            setattr(expected.container_resources, wire, value)
    if patch.resources.unified:
        expected.container_resources.unified.update(patch.resources.unified)
    Merge(hook_request).add("s", respond(hook_request, patch))
    # Whether an empty message is there says nothing.
    if not expected.HasField("container_resources"):
        expected.container_resources.SetInParent()
    hook_request.container_resources.SetInParent()
    assert hook_request == expected


class TestUndo:
    def test_puts_back_what_was_there(self):
        hook_request = pb.ContainerResourceHookRequest(
            container_annotations={"there": "1"},
            container_resources={"cpu_shares": 3, "unified": {"there": "1"}},
            pod_cgroup_parent="/p",
        )
        before = pb.ContainerResourceHookRequest()
        before.CopyFrom(hook_request)
        merged = merge.Merge(hook_request)
        for name, value in (("a", "2"), ("b", "3")):
            wants = pb.ContainerResourceHookResponse(
                container_annotations={"there": value, "new": value},
                container_envs={"E": value},
                container_resources={
                    "cpu_shares": int(value),
                    "memory_limit_in_bytes": int(value),
                    "unified": {"there": value, "new": value},
                },
                pod_cgroup_parent=f"/{value}",
            )
            merged.add(name, wants)
        claims = list(merged.claims)
        assert len(claims) == 8
        merged.undo(claims)
        assert merged.hook_request == before
        assert merged.claims == {}

    def test_the_rest_stays(self):
        merged = merge.Merge(pb.PodSandboxHookRequest())
        merged.add("a", pb.PodSandboxHookResponse(labels={"l": "1"}, cgroup_parent="/p"))
        merged.undo([merge.Field(merge.LABELS, "l")])
        assert merged.hook_request == pb.PodSandboxHookRequest(cgroup_parent="/p")
        assert merged.claims == {merge.Field(merge.CGROUP_PARENT): "a"}
