import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_proto import hook_pb2 as pb

from tests.support.node import NodeFixture

Words = list[tuple[str, dict[str, Any]]]


def spec(cpu: Any = 1000) -> str:
    main = {
        "requests": {BATCH_CPU: cpu},
        "limits": {BATCH_CPU: cpu, BATCH_MEMORY: "1Gi"},
    }
    return json.dumps({"containers": {"main": main}})


@pytest.fixture
def batch_container() -> pb.ContainerResourceHookRequest:
    """What a proxy sends before it creates a batch pod's container."""
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
    """The answer: the echo, with the plugin's three values."""
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
    """A batch pod with an annotation that batchresource cannot parse."""
    broken = pb.ContainerResourceHookRequest()
    broken.CopyFrom(batch_container)
    broken.pod_annotations[ANNOTATION_EXTENDED_RESOURCE_SPEC] = spec("half")
    return broken


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> Callable[..., Words]:
    """What was logged since the last call, with its fields; of some events if named."""

    def said(*events: str) -> Words:
        found = [(one.getMessage(), getattr(one, "fields", {})) for one in caplog.records]
        caplog.clear()
        return [one for one in found if not events or one[0] in events]

    return said


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFixture]:
    """A node in memory with cgroup v2, cgroupfs driver."""
    with NodeFixture(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where nodes in memory have their rules and devices."""
    return tmp_path_factory.mktemp("nodes")
