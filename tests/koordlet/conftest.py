import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from koord_hooks.runner import HookRunner, load
from koord_host.knobs.layout import Driver
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_proto import hook_pb2 as pb
from koordlet.agent.runtime_hooks import ManagedNode

from tests.support.fake_node import FakeNode
from tests.support.fake_node.kept import kept, settings_of

Words = list[tuple[str, dict[str, Any]]]
Keep = Callable[..., ManagedNode]


def spec(cpu: Any = 1000) -> str:
    main = {
        "requests": {BATCH_CPU: cpu},
        "limits": {BATCH_CPU: cpu, BATCH_MEMORY: "1Gi"},
    }
    return json.dumps({"containers": {"main": main}})


@pytest.fixture
def batch_container() -> pb.ContainerResourceHookRequest:
    """What a proxy asks before it creates a batch pod's container."""
    return pb.ContainerResourceHookRequest(
        pod_meta=pb.PodSandboxMetadata(name="job-1", namespace="batch", uid="u"),
        container_meta=pb.ContainerMetadata(name="main"),
        container_resources=pb.LinuxContainerResources(
            cpu_period=100_000, cpu_shares=2, oom_score_adj=1000, cpuset_mems="0"
        ),
        pod_annotations={ANNOTATION_EXTENDED_RESOURCE_SPEC: spec()},
        pod_labels={LABEL_QOS: "BE"},
        pod_cgroup_parent="/kubepods.slice/kubepods-besteffort.slice/pod1",
        container_envs={"A": "1"},
    )


@pytest.fixture
def batch_answer(batch_container: pb.ContainerResourceHookRequest) -> Any:
    """What is to be answered: the echo, with the plugin's three values laid over it."""
    return pb.ContainerResourceHookResponse(
        container_resources=pb.LinuxContainerResources(
            cpu_period=100_000,
            cpu_quota=100_000,
            cpu_shares=1024,
            memory_limit_in_bytes=1 << 30,
            oom_score_adj=1000,
            cpuset_mems="0",
        ),
        pod_cgroup_parent=batch_container.pod_cgroup_parent,
        container_envs={"A": "1"},
    )


@pytest.fixture
def broken_container(
    batch_container: pb.ContainerResourceHookRequest,
) -> pb.ContainerResourceHookRequest:
    """A batch pod whose annotation batchresource cannot read."""
    broken = pb.ContainerResourceHookRequest()
    broken.CopyFrom(batch_container)
    broken.pod_annotations[ANNOTATION_EXTENDED_RESOURCE_SPEC] = spec("half")
    return broken


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> Callable[..., Words]:
    """What was said since it was asked last, with its fields; of some events if named."""

    def said(*events: str) -> Words:
        found = [(one.getMessage(), getattr(one, "fields", {})) for one in caplog.records]
        caplog.clear()
        return [one for one in found if not events or one[0] in events]

    return said


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    """Opens a node in memory as koordlet does, cgroupfs driver, with plugins by name."""
    with ExitStack() as stack:

        def opened(node: FakeNode, *plugins: str, **settings: Any) -> ManagedNode:
            runner = load(plugins) if plugins else HookRunner([])
            driver = settings.pop("driver", Driver.CGROUPFS)
            given = settings_of(node, tmp_path, driver, **settings)
            return stack.enter_context(kept(node, given, runner))

        yield opened


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nodes in memory have their rules and devices."""
    return tmp_path_factory.mktemp("nodes")
