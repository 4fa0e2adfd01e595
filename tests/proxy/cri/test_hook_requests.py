"""Hook requests from CRI requests, and changed ones back into CRI requests."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from koord_demo import cri_client_pb2 as full
from koord_proto import cri_pb2 as cri
from koord_proto import hook_pb2 as pb
from koord_proxy.cri import hook_requests as rules
from koord_proxy.rules.merge import ANNOTATIONS, CGROUP_PARENT, ENV, RESOURCES, UNIFIED, Field

STRANGE = b"\xba\x3e\x06future"
"""Field 999, which no message here knows."""
NOT_UTF8 = b"\xff\xfe"

SECURITY = {
    "namespace_options": {"network": "NODE", "pid": "CONTAINER"},
    "run_as_user": {"value": 0},
    "supplemental_groups": [1, 2, 3],
    "seccomp": {"profile_type": "Localhost", "localhost_ref": "x.json"},
}


def sandbox_config() -> full.PodSandboxConfig:
    """A pod with much that the proxy knows nothing of."""
    return full.PodSandboxConfig(
        metadata={"name": "job", "uid": "u", "namespace": "batch", "attempt": 3},
        hostname="host",
        log_directory="/var/log/pods",
        dns_config={"servers": ["10.0.0.1"], "searches": ["a", "b"]},
        labels={"app": "job", "empty": ""},
        annotations={"note": "ä"},
        linux={
            "cgroup_parent": "/kubepods/podu",
            "security_context": SECURITY,
            "sysctls": {"net.core.somaxconn": "1"},
            "overhead": {"cpu_shares": 10, "unified": {"memory.high": "1"}},
            "resources": {"cpu_period": 100_000, "hugepage_limits": [{"page_size": "2Mi"}]},
        },
    )


def container_config() -> full.ContainerConfig:
    return full.ContainerConfig(
        metadata={"name": "main", "attempt": 2},
        image={"image": "busybox", "annotations": {"a": "b"}},
        command=["sleep"],
        args=["1"],
        envs=[
            {"key": "Z", "value": b"1"},
            {"key": "A", "value": b""},
            {"key": "BINARY", "value": NOT_UTF8},
            {"key": "M", "value": b"x=y"},
        ],
        mounts=[{"container_path": "/c", "host_path": "/h", "readonly": True}],
        devices=[{"host_path": "/dev/null"}],
        labels={"l": "1"},
        annotations={"c": "1"},
        log_path="0.log",
        tty=True,
        linux={
            "resources": {
                "cpu_shares": 2,
                "cpuset_cpus": "0-3",
                "oom_score_adj": 1000,
                "unified": {"memory.low": "0"},
                "hugepage_limits": [{"page_size": "2Mi", "limit": 1 << 21}],
            },
            "security_context": {
                "capabilities": {"add_capabilities": ["NET_ADMIN"]},
                "masked_paths": ["/proc/kcore"],
                **SECURITY,
            },
        },
    )


def run_request() -> full.RunPodSandboxRequest:
    return full.RunPodSandboxRequest(config=sandbox_config(), runtime_handler="kata")


def create_request() -> full.CreateContainerRequest:
    return full.CreateContainerRequest(
        pod_sandbox_id="s", config=container_config(), sandbox_config=sandbox_config()
    )


def update_request() -> full.UpdateContainerResourcesRequest:
    return full.UpdateContainerResourcesRequest(
        container_id="c", linux=container_config().linux.resources, annotations={"u": "1"}
    )


def read_by_proxy(request: Any, kind: type[Any]) -> Any:
    return kind.FromString(request.SerializeToString())


def container_request(request: Any = None) -> pb.ContainerResourceHookRequest:
    seen = read_by_proxy(request or create_request(), cri.CreateContainerRequest)
    return rules.container_hook_request(
        seen.config, seen.sandbox_config, rules.pod_hook_request(seen.sandbox_config)
    )


POD_META = {"name": "job", "uid": "u", "namespace": "batch", "attempt": 3}
POD_RESOURCES = {"cpu_period": 100_000, "hugepage_limits": [{"page_size": "2Mi"}]}


class TestPodFacts:
    def test_all_that_hooks_may_know(self):
        seen = read_by_proxy(run_request(), cri.RunPodSandboxRequest)
        assert rules.pod_hook_request(
            seen.config, seen.runtime_handler
        ) == pb.PodSandboxHookRequest(
            pod_meta=POD_META,
            runtime_handler="kata",
            labels={"app": "job", "empty": ""},
            annotations={"note": "ä"},
            cgroup_parent="/kubepods/podu",
            overhead={"cpu_shares": 10, "unified": {"memory.high": "1"}},
            resources=POD_RESOURCES,
        )

    def test_of_a_pod_that_says_nothing(self):
        hook_request = rules.pod_hook_request(cri.PodSandboxConfig())
        assert not hook_request.HasField("overhead")
        assert not hook_request.HasField("resources")
        assert hook_request.pod_meta == pb.PodSandboxMetadata()


class TestContainerFacts:
    def test_all_that_hooks_may_know(self):
        limits = container_config().linux.resources.SerializeToString()
        assert container_request() == pb.ContainerResourceHookRequest(
            pod_meta=POD_META,
            container_meta={"name": "main", "attempt": 2},
            container_annotations={"c": "1"},
            container_resources=pb.LinuxContainerResources.FromString(limits),
            pod_resources=POD_RESOURCES,
            pod_annotations={"note": "ä"},
            pod_labels={"app": "job", "empty": ""},
            pod_cgroup_parent="/kubepods/podu",
            container_envs={"Z": "1", "A": "", "M": "x=y"},
        )

    def test_labels_and_annotations_are_the_pods_as_hooks_left_them(self):
        pod = pb.PodSandboxHookRequest(labels={"hook": "1"}, annotations={"hook": "2"})
        hook_request = rules.container_hook_request(
            cri.ContainerConfig(), cri.PodSandboxConfig(labels={"app": "job"}), pod
        )
        assert dict(hook_request.pod_labels) == {"hook": "1"}
        assert dict(hook_request.pod_annotations) == {"hook": "2"}
        assert not hook_request.HasField("container_resources")
        assert not hook_request.HasField("pod_resources")

    @pytest.mark.parametrize(("said", "expected"), [("/said", "/said"), ("", "/known")])
    def test_the_parent_is_the_requests_or_the_pods(self, said, expected):
        sandbox = cri.PodSandboxConfig(linux=cri.LinuxPodSandboxConfig(cgroup_parent=said))
        pod = pb.PodSandboxHookRequest(cgroup_parent="/known")
        hook_request = rules.container_hook_request(cri.ContainerConfig(), sandbox, pod)
        assert hook_request.pod_cgroup_parent == expected


class TestUpdatedFacts:
    STORED = pb.ContainerResourceHookRequest(
        container_meta={"name": "main"},
        container_annotations={"c": "1", "u": "0"},
        container_envs={"A": "1"},
        container_resources={
            "cpu_shares": 2,
            "cpu_quota": 5000,
            "cpuset_cpus": "0-3",
            "oom_score_adj": 1000,
            "unified": {"memory.low": "0", "memory.high": "1"},
            "hugepage_limits": [{"page_size": "2Mi", "limit": 1}, {"page_size": "1Gi"}],
        },
    )

    def test_what_is_set_is_laid_over(self):
        request = cri.UpdateContainerResourcesRequest(
            annotations={"u": "1", "v": "2"},
            linux={
                "cpu_quota": -1,
                "memory_limit_in_bytes": 7,
                "cpuset_cpus": "1",
                "unified": {"memory.high": "max"},
                "hugepage_limits": [{"page_size": "2Mi", "limit": 9}],
            },
        )
        hook_request = rules.updated_hook_request(self.STORED, request)
        assert hook_request == pb.ContainerResourceHookRequest(
            container_meta={"name": "main"},
            container_annotations={"c": "1", "u": "1", "v": "2"},
            container_envs={"A": "1"},
            container_resources={
                "cpu_shares": 2,
                "cpu_quota": -1,
                "memory_limit_in_bytes": 7,
                "cpuset_cpus": "1",
                "oom_score_adj": 1000,
                "unified": {"memory.low": "0", "memory.high": "max"},
                "hugepage_limits": [{"page_size": "2Mi", "limit": 9}],
            },
        )

    def test_nothing_set_is_the_stored_and_those_stay_as_they_are(self):
        before = self.STORED.SerializeToString(deterministic=True)
        hook_request = rules.updated_hook_request(
            self.STORED, cri.UpdateContainerResourcesRequest()
        )
        assert hook_request == self.STORED
        hook_request.container_resources.cpu_shares = 9
        assert self.STORED.SerializeToString(deterministic=True) == before


class TestWriteSandbox:
    def test_what_changed_and_nothing_else(self):
        request = read_by_proxy(run_request(), cri.RunPodSandboxRequest)
        hook_request = rules.pod_hook_request(request.config)
        hook_request.labels.update({"app": "new", "not": "claimed"})
        hook_request.annotations["hook"] = "1"
        hook_request.cgroup_parent = "/q"
        changed = [Field("labels", "app"), Field(ANNOTATIONS, "hook"), Field(CGROUP_PARENT)]
        rules.write_sandbox(request, hook_request, changed)
        expected = run_request()
        expected.config.labels["app"] = "new"
        expected.config.annotations["hook"] = "1"
        expected.config.linux.cgroup_parent = "/q"
        assert read_by_proxy(request, full.RunPodSandboxRequest) == expected


class TestWriteContainer:
    def written(self, request: Any, *changed: Field, clear: str = "", **kind: Any) -> Any:
        """The request with fields of the hook request changed, as the runtime reads it."""
        seen = read_by_proxy(request, cri.CreateContainerRequest)
        hook_request = rules.container_hook_request(
            seen.config, seen.sandbox_config, pb.PodSandboxHookRequest()
        )
        if clear:
            hook_request.container_resources.ClearField(clear)
        for name, value in kind.items():
            target = getattr(hook_request, name)
            if isinstance(value, str):
                setattr(hook_request, name, value)
            elif isinstance(target, Message):
                target.MergeFrom(value)
            else:
                target.update(value)
        rules.write_container(seen, hook_request, changed)
        return read_by_proxy(seen, full.CreateContainerRequest)

    def test_what_changed_and_nothing_else(self):
        found = self.written(
            create_request(),
            Field(ANNOTATIONS, "hook"),
            Field(CGROUP_PARENT),
            Field(RESOURCES, "cpu_quota"),
            Field(UNIFIED, "memory.high"),
            container_annotations={"hook": "1", "not": "claimed"},
            pod_cgroup_parent="/q",
            container_resources=pb.LinuxContainerResources(
                cpu_quota=-1, cpu_shares=99, unified={"memory.high": "max"}
            ),
        )
        expected = create_request()
        expected.config.annotations["hook"] = "1"
        expected.sandbox_config.linux.cgroup_parent = "/q"
        expected.config.linux.resources.cpu_quota = -1
        expected.config.linux.resources.unified["memory.high"] = "max"
        assert found == expected

    def test_a_cpuset_can_be_cleared(self):
        found = self.written(
            create_request(),
            Field(RESOURCES, "cpuset_cpus"),
            container_resources=pb.LinuxContainerResources(),
            clear="cpuset_cpus",
        )
        expected = create_request()
        expected.config.linux.resources.cpuset_cpus = ""
        assert found == expected

    def test_env_keeps_its_order_and_what_is_not_text(self):
        found = self.written(
            create_request(),
            *[Field(ENV, name) for name in ("Y", "A", "B")],
            container_envs={"A": "ä", "Y": "last", "B": "before"},
        )
        assert [(one.key, one.value) for one in found.config.envs] == [
            ("Z", b"1"),
            ("A", "ä".encode()),
            ("BINARY", NOT_UTF8),
            ("M", b"x=y"),
            ("B", b"before"),
            ("Y", b"last"),
        ]

    def test_a_variable_is_changed_wherever_it_stands(self):
        # Runtimes let the last one count.
        request = create_request()
        request.config.envs.add(key="Z", value=b"2")
        assert container_request(request).container_envs["Z"] == "2"
        changes = {"Z": "3", "BINARY": "text"}
        fields = [Field(ENV, name) for name in changes]
        found = self.written(request, *fields, container_envs=changes)
        assert [one.value for one in found.config.envs] == [b"3", b"", b"text", b"x=y", b"3"]


class TestWriteUpdate:
    def test_the_full_set_is_sent(self):
        resources = {
            "cpu_shares": 7,
            "cpuset_mems": "0",
            "unified": {"memory.high": "max"},
            "hugepage_limits": [{"page_size": "2Mi", "limit": 9}],
        }
        stored = pb.ContainerResourceHookRequest(
            container_annotations={"c": "1"}, container_resources=resources
        )
        request = cri.UpdateContainerResourcesRequest(
            container_id="c", linux={"cpu_shares": 2, "cpuset_cpus": "3"}, annotations={"u": "1"}
        )
        rules.write_update(request, stored)
        assert request == cri.UpdateContainerResourcesRequest(
            container_id="c", linux=resources, annotations={"c": "1", "u": "1"}
        )

    @pytest.mark.parametrize(
        "stored", [TestUpdatedFacts.STORED, pb.ContainerResourceHookRequest()], ids=["much", "none"]
    )
    def test_hugepages_of_the_request_stand(self, stored):
        """With nothing stored all of it stays as it came."""
        request = read_by_proxy(update_request(), cri.UpdateContainerResourcesRequest)
        rules.write_update(request, rules.updated_hook_request(stored, request))
        found = read_by_proxy(request, full.UpdateContainerResourcesRequest)
        before = update_request()
        assert found.linux.hugepage_limits == before.linux.hugepage_limits
        assert (found == before) is (stored is not TestUpdatedFacts.STORED)


def messages_in(message: Message) -> list[Message]:
    """The message and all messages in it, except the entries of maps."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else [value]:
            found += messages_in(inner)
    return found


def strange(message: Message) -> int:
    """How many of the messages within have kept the field nobody knows."""
    return sum(
        any(field.field_number == 999 for field in UnknownFieldSet(one))
        for one in messages_in(message)
    )


def rewrite_sandbox(seen: Any, request: Any) -> None:
    hook_request = rules.pod_hook_request(seen.config, seen.runtime_handler)
    hook_request.annotations["hook"] = request.config.annotations["hook"] = "1"
    hook_request.cgroup_parent = request.config.linux.cgroup_parent = "/q"
    rules.write_sandbox(seen, hook_request, [Field(ANNOTATIONS, "hook"), Field(CGROUP_PARENT)])


def rewrite_container(seen: Any, request: Any) -> None:
    hook_request, limits = container_request(request), request.config.linux.resources
    hook_request.container_resources.cpu_shares = limits.cpu_shares = 9
    hook_request.container_resources.unified["memory.low"] = limits.unified["memory.low"] = "1"
    hook_request.container_envs["Z"], request.config.envs[0].value = "2", b"2"
    hook_request.pod_cgroup_parent = request.sandbox_config.linux.cgroup_parent = "/q"
    changed = [Field(RESOURCES, "cpu_shares"), Field(UNIFIED, "memory.low"), Field(ENV, "Z")]
    rules.write_container(seen, hook_request, [*changed, Field(CGROUP_PARENT)])


def rewrite_update(seen: Any, request: Any) -> None:
    stored = pb.ContainerResourceHookRequest(container_annotations={"c": "1"})
    rules.write_update(seen, rules.updated_hook_request(stored, seen))
    request.annotations["c"] = "1"


@pytest.mark.parametrize(
    ("make", "rewrite"),
    [
        (run_request, rewrite_sandbox),
        (create_request, rewrite_container),
        (update_request, rewrite_update),
    ],
)
def test_what_is_unknown_survives_a_rewrite_at_every_depth(make, rewrite):
    request = make()
    for one in messages_in(request):
        one.MergeFromString(STRANGE)
    count = len(messages_in(request))
    seen = read_by_proxy(request, getattr(cri, type(request).__name__))
    rewrite(seen, request)
    arrived = read_by_proxy(seen, type(request))
    # Comparing messages takes unknown fields in; counting shows that there are any.
    assert arrived == request
    assert count >= 3
    assert strange(arrived) == count


def test_what_is_unknown_in_a_create_request_is_not_sent_twice_with_an_update():
    request = create_request()
    for one in messages_in(request):
        one.MergeFromString(STRANGE)
    update = cri.UpdateContainerResourcesRequest(linux={"cpu_shares": 3})
    rules.write_update(update, rules.updated_hook_request(container_request(request), update))
    assert strange(update) == 0
    assert update.linux.cpuset_cpus == "0-3"
