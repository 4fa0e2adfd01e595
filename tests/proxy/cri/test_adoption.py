"""Records from what runtimes say of pods and containers, each in its own way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proto import cri_pb2 as cri
from koord_proto import hook_pb2 as pb
from koord_proxy.cri.adoption import container_record, pod_record
from koord_proxy.rules.records import RecordKind, RuntimeRecord, put_into_pod

PARENT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu.slice"
POD_LABELS = {
    "io.kubernetes.pod.name": "job",
    "io.kubernetes.pod.namespace": "batch",
    "io.kubernetes.pod.uid": "u",
}


def pod_status(info: Any = None) -> cri.PodSandboxStatusResponse:
    response = cri.PodSandboxStatusResponse(
        status={
            "id": "s",
            "metadata": {"name": "job", "namespace": "batch", "uid": "u", "attempt": 1},
            "labels": {"app": "job"},
            "annotations": {"a": "1"},
            "runtime_handler": "kata",
        }
    )
    _set(response, info)
    return response


def container_status(info: Any = None, **resources: Any) -> cri.ContainerStatusResponse:
    response = cri.ContainerStatusResponse(
        status={
            "id": "c",
            "metadata": {"name": "main", "attempt": 2},
            "labels": POD_LABELS,
            "annotations": {"c": "1"},
        }
    )
    if resources:
        response.status.resources.linux.MergeFrom(cri.LinuxContainerResources(**resources))
    _set(response, info)
    return response


def _set(response: Any, info: Any) -> None:
    if info is not None:
        response.info["info"] = info if isinstance(info, str) else json.dumps(info)


SPEC = {
    "process": {
        "oomScoreAdj": 1000,
        "env": ["PATH=/bin", "GIVEN=of the spec=", "EMPTY=", "HOSTNAME=job"],
    },
    "linux": {
        "cgroupsPath": "kubepods-besteffort-podu.slice:cri-containerd:c",
        "resources": {
            "cpu": {"shares": 1024, "quota": -1, "period": 100_000, "cpus": "0-3", "mems": "0"},
            "memory": {"limit": 1 << 30, "swap": 2 << 30},
            "unified": {"memory.high": "max"},
        },
    },
}

CONTAINERD = {
    "sandboxID": "s",
    "pid": 42,
    "removing": False,
    "snapshotter": "overlayfs",
    "config": {
        "metadata": {"name": "main"},
        # Newer ones write the value as Go writes bytes.
        "envs": [{"key": "GIVEN", "value": "b2Y="}, {"key": "EMPTY"}, {"key": "GONE"}],
        "linux": {"resources": {"cpu_shares": 2}},
    },
    "runtimeSpec": SPEC,
}
CRIO = {"sandboxID": "s", "pid": 42, "privileged": False, "runtimeSpec": SPEC}

LIMITS = pb.LinuxContainerResources(
    cpu_period=100_000,
    cpu_quota=-1,
    cpu_shares=1024,
    memory_limit_in_bytes=1 << 30,
    memory_swap_limit_in_bytes=2 << 30,
    oom_score_adj=1000,
    cpuset_cpus="0-3",
    cpuset_mems="0",
    unified={"memory.high": "max"},
)


class TestPod:
    def test_as_containerd_shows_it(self):
        info = {"runtimeHandler": "kata", "config": {"linux": {"cgroup_parent": PARENT}}}
        record = pod_record("s", pod_status(info))
        assert record == RuntimeRecord(
            RecordKind.POD,
            "s",
            pb.PodSandboxHookRequest(
                pod_meta={"name": "job", "namespace": "batch", "uid": "u", "attempt": 1},
                runtime_handler="kata",
                labels={"app": "job"},
                annotations={"a": "1"},
                cgroup_parent=PARENT,
            ),
        )

    @pytest.mark.parametrize(
        ("path", "parent"),
        [
            ("kubepods-besteffort-podu.slice:crio:s", PARENT),
            ("kubepods.slice:crio:s", "/kubepods.slice"),
            ("/kubepods/besteffort/podu/crio-s", "/kubepods/besteffort/podu"),
            ("relative/podu/s", ""),
            ("", ""),
        ],
    )
    def test_as_crio_shows_it(self, path, parent):
        info = {"image": "pause", "pid": 1, "runtimeSpec": {"linux": {"cgroupsPath": path}}}
        assert pod_record("s", pod_status(info)).hook_request.cgroup_parent == parent

    @pytest.mark.parametrize("info", [None, "", "{", "[]", "null", '"x"', "{}", "[" * 200_000])
    def test_with_no_info_it_has_what_the_status_has(self, info):
        hook_request = pod_record("s", pod_status(info)).hook_request
        assert hook_request.pod_meta.name == "job"
        assert hook_request.cgroup_parent == ""
        assert dict(hook_request.annotations) == {"a": "1"}


class TestContainer:
    def test_as_containerd_shows_it_in_a_known_pod(self):
        meta = {"name": "job", "namespace": "batch", "uid": "u", "attempt": 1}
        pod = pb.PodSandboxHookRequest(
            pod_meta=meta, labels={"app": "job"}, annotations={"a": "1"}, cgroup_parent=PARENT
        )
        record = container_record("c", container_status(CONTAINERD, cpu_shares=2, cpuset_cpus="7"))
        put_into_pod(record, RuntimeRecord(RecordKind.POD, "s", pod))
        hook_request = pb.ContainerResourceHookRequest(
            pod_meta=meta,
            container_meta={"name": "main", "attempt": 2, "id": "c"},
            container_annotations={"c": "1"},
            container_resources=LIMITS,
            pod_annotations={"a": "1"},
            pod_labels={"app": "job"},
            pod_cgroup_parent=PARENT,
            container_envs={"GIVEN": "of the spec=", "EMPTY": ""},
        )
        assert record == RuntimeRecord(RecordKind.CONTAINER, "c", hook_request, "s")

    def test_in_a_pod_that_nobody_knows(self):
        hook_request = container_record("c", container_status(CONTAINERD)).hook_request
        assert hook_request.pod_meta == pb.PodSandboxMetadata(
            name="job", namespace="batch", uid="u"
        )
        assert hook_request.pod_cgroup_parent == PARENT
        assert hook_request.container_resources == LIMITS

    def test_as_crio_shows_it(self):
        hook_request = container_record("c", container_status(CRIO)).hook_request
        assert hook_request.container_resources == LIMITS
        # Which variables are the image's is not reported: none is taken for the pod's.
        assert dict(hook_request.container_envs) == {}

    def test_with_a_status_only(self):
        response = container_status(None, cpu_shares=5, oom_score_adj=7)
        hook_request = container_record("c", response).hook_request
        assert hook_request.container_resources == pb.LinuxContainerResources(
            cpu_shares=5, oom_score_adj=7
        )
        assert hook_request.container_meta.id == "c"

    @pytest.mark.parametrize(
        "info",
        [
            "{",
            "null",
            {"runtimeSpec": None},
            {"runtimeSpec": []},
            {"runtimeSpec": {"linux": 3, "process": "x"}},
            {"runtimeSpec": {"linux": {"cgroupsPath": None, "resources": {"cpu": []}}}},
            {"runtimeSpec": {"linux": {"resources": {"cpu": {"shares": "2", "cpus": 3}}}}},
            {"runtimeSpec": {"linux": {"resources": {"cpu": {"shares": 2.5, "quota": None}}}}},
            {"runtimeSpec": {"linux": {"resources": {"memory": {"limit": 1 << 64}}}}},
            {"runtimeSpec": {"process": {"oomScoreAdj": 1 << 70, "env": 7}}},
            {"runtimeSpec": {"process": {"env": [None, 3, {}]}}, "config": {"envs": 7}},
            {"config": {"envs": [None, "x", {"key": ["list"]}, {"key": None}]}},
            {"config": {"envs": {"A": "1"}, "linux": "none"}},
            {"runtimeSpec": {"linux": {"resources": {"unified": ["a"]}}}},
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_as_if_it_were_not_there(self, info):
        hook_request = container_record("c", container_status(info, cpu_shares=5)).hook_request
        assert hook_request.container_resources == pb.LinuxContainerResources(cpu_shares=5)
        assert dict(hook_request.container_envs) == {}

    def test_text_that_is_no_unicode_is_left_out(self):
        process = {"env": ["A=\ud800"]}
        resources = {"cpu": {"cpus": "\udfff"}, "unified": {"x": "\ud800"}}
        linux = {"resources": resources, "cgroupsPath": "/\ud800/x"}
        info = {
            "config": {"envs": [{"key": "A"}]},
            "runtimeSpec": {"process": process, "linux": linux},
        }
        hook_request = container_record("c", container_status(info)).hook_request
        assert dict(hook_request.container_envs) == {}
        assert hook_request.container_resources == pb.LinuxContainerResources()
        assert hook_request.pod_cgroup_parent == ""


@pytest.mark.parametrize(
    ("info", "sandbox"),
    [(CONTAINERD, "s"), (None, ""), ("{", ""), ({}, ""), ({"sandboxID": None}, "")],
    ids=["containerd", "none", "garbage", "without", "null"],
)
def test_the_sandbox_where_the_runtime_tells(info, sandbox):
    assert container_record("c", container_status(info)).sandbox == sandbox


_NAMES = [
    *("config", "envs", "key", "linux", "cgroup_parent", "cgroupsPath", "runtimeSpec"),
    *("resources", "cpu", "shares", "cpus", "memory", "limit", "unified"),
    *("process", "env", "oomScoreAdj", "sandboxID"),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_no_info_is_too_strange(info: object) -> None:
    text = json.dumps(info)
    pod = pod_record("s", pod_status(text))
    response = container_status(text)
    put_into_pod(container_record("c", response), pod)
