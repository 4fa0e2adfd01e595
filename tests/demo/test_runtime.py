"""The embedded runtime keeps the rules its docstring names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from koord_demo.runtime import DemoRuntime, serve

from tests.support.cri import (
    AsyncCri,
    Cri,
    RunningPod,
    batch_pod_config,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.embedded import EmbeddedRuntime
from tests.support.processes import PATIENCE


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime(tmp_path) as embedded:
        yield embedded


@pytest.fixture
def cri(embedded: EmbeddedRuntime) -> Iterator[Cri]:
    with Cri(embedded.address) as client:
        yield client


def files(embedded: EmbeddedRuntime, parent: str, identity: str) -> dict[str, str]:
    return embedded.runtime.cgroups.read(f"{parent}/{identity}")


def refused(code: grpc.StatusCode):
    return pytest.raises(grpc.RpcError, check=lambda error: error.code() == code)


def linux(**fields: int | str) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(**fields)


def create(cri: Cri, pod: RunningPod, sandbox: str) -> str:
    return cri.create_container(sandbox, pod.plan.container, pod.plan.sandbox)


class TestFiles:
    def test_batch_pod_as_sent(self, embedded, cri):
        pod = run_pod(cri, batch_pod_config())
        parent = pod.plan.sandbox.linux.cgroup_parent
        assert files(embedded, parent, pod.container_id) == {
            "cpu.shares": "2",
            "cpu.cfs_quota_us": "-1",
            "cpu.cfs_period_us": "100000",
            "memory.limit_in_bytes": "-1",
            "cpuset.cpus": "0-7",
            "oom_score_adj": "1000",
        }
        assert files(embedded, parent, pod.sandbox_id)["oom_score_adj"] == "-998"
        assert files(embedded, parent, "")["cpu.shares"] == "1024"

    def test_updates_lay_over_what_is_there(self, embedded, cri):
        pod = run_pod(cri, burstable_pod_config(cpu_milli=500))
        parent = pod.plan.sandbox.linux.cgroup_parent
        # Memory is counted in whole pages.
        wanted = linux(cpu_quota=50_000, memory_limit_in_bytes=(64 << 20) + 5, cpuset_cpus="1-3")
        cri.update_container_resources(pod.container_id, wanted)
        cri.update_container_resources(pod.container_id, linux(cpu_period=50_000))
        found = files(embedded, parent, pod.container_id)
        assert found["cpu.shares"] == "512"
        assert (found["cpu.cfs_quota_us"], found["cpu.cfs_period_us"]) == ("50000", "50000")
        assert (found["memory.limit_in_bytes"], found["cpuset.cpus"]) == (str(64 << 20), "1-3")
        cri.update_container_resources(
            pod.container_id, linux(cpu_quota=-1, memory_limit_in_bytes=-1)
        )
        found = files(embedded, parent, pod.container_id)
        assert found["cpu.cfs_quota_us"] == found["memory.limit_in_bytes"] == "-1"

    @pytest.mark.parametrize(
        "fields",
        [
            *({"cpu_shares": shares} for shares in (1, 262_145, -1)),
            *({"cpu_quota": 999}, {"cpu_period": 999}, {"cpu_period": 1_000_001}),
            *({"memory_limit_in_bytes": -2}, {"cpuset_cpus": "a-b"}, {"cpuset_cpus": "99"}),
        ],
        ids=str,
    )
    def test_out_of_range_changes_nothing(self, embedded, cri, fields):
        pod = run_pod(cri, burstable_pod_config())
        parent = pod.plan.sandbox.linux.cgroup_parent
        before = files(embedded, parent, pod.container_id)
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            cri.update_container_resources(pod.container_id, linux(**{"cpu_shares": 3} | fields))
        assert files(embedded, parent, pod.container_id) == before
        status = cri.container_status(pod.container_id).status
        assert status.resources.linux.cpu_shares == 102

    def test_an_update_before_the_start_counts_at_the_start(self, embedded, cri):
        plan = burstable_pod_config()
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        # The parent is that of the container's request.
        plan.sandbox.linux.cgroup_parent = "/elsewhere"
        container = cri.create_container(sandbox, plan.container, plan.sandbox)
        assert files(embedded, "/elsewhere", container) == {}
        cri.update_container_resources(container, linux(cpu_shares=300))
        cri.start_container(container)
        assert files(embedded, "/elsewhere", container)["cpu.shares"] == "300"

    def test_a_start_that_the_kernel_refuses_is_an_exit(self, cri):
        plan = burstable_pod_config()
        plan.container.linux.resources.cpu_quota = 500
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        container = cri.create_container(sandbox, plan.container, plan.sandbox)
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            cri.start_container(container)
        status = cri.container_status(container).status
        assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 128)
        assert "cfs_quota" in status.message


class TestLifecycle:
    def test_a_pod_comes_and_goes(self, embedded, cri):
        pod = run_pod(cri, batch_pod_config())
        (container,) = cri.list_containers(sandbox_id=pod.sandbox_id)
        assert container.state == pb.CONTAINER_RUNNING
        assert [s.id for s in cri.list_pod_sandbox()] == [pod.sandbox_id]
        remove_pod(cri, pod)
        assert not cri.list_containers()
        assert not cri.list_pod_sandbox()
        parent = pod.plan.sandbox.linux.cgroup_parent
        assert not files(embedded, parent, pod.container_id)
        assert not files(embedded, parent, pod.sandbox_id)

    @pytest.mark.parametrize(
        ("code", "call"),
        [
            ("NOT_FOUND", lambda cri, pod: create(cri, pod, "nope")),
            ("NOT_FOUND", lambda cri, _: cri.start_container("nope")),
            ("NOT_FOUND", lambda cri, _: cri.update_container_resources("nope", linux())),
            ("NOT_FOUND", lambda cri, _: cri.container_status("nope")),
            ("NOT_FOUND", lambda cri, _: cri.pod_sandbox_status("nope")),
            # Names are taken once, metadata is needed.
            ("UNKNOWN", lambda cri, pod: cri.run_pod_sandbox(pod.plan.sandbox)),
            ("UNKNOWN", lambda cri, pod: create(cri, pod, pod.sandbox_id)),
            ("UNKNOWN", lambda cri, _: cri.run_pod_sandbox(pb.PodSandboxConfig())),
            (
                "UNKNOWN",
                lambda cri, pod: cri.create_container(
                    pod.sandbox_id, pb.ContainerConfig(), pod.plan.sandbox
                ),
            ),
            ("UNKNOWN", lambda cri, pod: cri.start_container(pod.container_id)),
            (
                "INVALID_ARGUMENT",
                lambda cri, _: cri.run_pod_sandbox(
                    burstable_pod_config(cgroup_root="/../..").sandbox
                ),
            ),
        ],
    )
    def test_what_is_refused(self, cri, code, call):
        pod = run_pod(cri, batch_pod_config())
        with refused(grpc.StatusCode[code]):
            call(cri, pod)

    def test_what_ended_is_not_started_again_but_made_anew(self, cri):
        pod = run_pod(cri, batch_pod_config())
        cri.stop_container(pod.container_id)
        with refused(grpc.StatusCode.UNKNOWN):
            cri.start_container(pod.container_id)
        pod.plan.container.metadata.attempt = 1
        create(cri, pod, pod.sandbox_id)

    def test_to_end_what_is_not_there_is_no_error(self, cri):
        cri.stop_container("nope")
        cri.remove_container("nope")
        cri.stop_pod_sandbox("nope")
        cri.remove_pod_sandbox("nope")

    def test_nothing_is_made_in_a_stopped_sandbox(self, cri):
        plan = batch_pod_config()
        sandbox = cri.run_pod_sandbox(plan.sandbox)
        waiting = cri.create_container(sandbox, plan.container, plan.sandbox)
        cri.stop_pod_sandbox(sandbox)
        with refused(grpc.StatusCode.UNKNOWN):
            cri.start_container(waiting)
        plan.container.metadata.name = "late"
        with refused(grpc.StatusCode.NOT_FOUND):
            cri.create_container(sandbox, plan.container, plan.sandbox)

    def test_a_sandbox_takes_its_containers_with_it(self, cri):
        pod = run_pod(cri, batch_pod_config())
        cri.stop_pod_sandbox(pod.sandbox_id)
        assert cri.container_status(pod.container_id).status.state == pb.CONTAINER_EXITED
        assert cri.pod_sandbox_status(pod.sandbox_id).status.state == pb.SANDBOX_NOTREADY
        cri.remove_pod_sandbox(pod.sandbox_id)
        assert not cri.list_containers()


class TestStatus:
    def test_verbose_container_is_in_the_shape_of_containerd(self, cri):
        pod = run_pod(cri, batch_pod_config(envs={"A": "1"}))
        wanted = linux(cpu_quota=50_000, memory_limit_in_bytes=1 << 20)
        cri.update_container_resources(pod.container_id, wanted)
        info = json.loads(cri.container_status(pod.container_id, verbose=True).info["info"])
        assert info["sandboxID"] == pod.sandbox_id
        assert info["config"]["envs"] == [{"key": "A", "value": "1"}]
        asked = {"cpu_period": 100_000, "cpu_shares": 2, "oom_score_adj": 1000}
        assert info["config"]["linux"]["resources"] == asked
        spec = info["runtimeSpec"]
        assert spec["linux"]["resources"] == {
            "cpu": {"shares": 2, "quota": 50_000, "period": 100_000},
            "memory": {"limit": 1 << 20, "swap": 1 << 20},
        }
        parent = pod.plan.sandbox.linux.cgroup_parent
        assert spec["linux"]["cgroupsPath"] == f"{parent}/{pod.container_id}"
        assert spec["process"]["oomScoreAdj"] == 1000

    def test_verbose_sandbox_shows_its_config(self, cri):
        plan = batch_pod_config("worker")
        identity = cri.run_pod_sandbox(plan.sandbox, runtime_handler="kata")
        response = cri.pod_sandbox_status(identity, verbose=True)
        config = json.loads(response.info["info"])["config"]
        assert config["metadata"]["name"] == "worker"
        assert config["linux"]["cgroup_parent"] == plan.sandbox.linux.cgroup_parent
        assert response.status.runtime_handler == "kata"
        assert dict(response.status.labels) == dict(plan.sandbox.labels)

    def test_lists_are_filtered(self, cri):
        one, two = (run_pod(cri, batch_pod_config(labels={"n": n})) for n in "12")
        cri.stop_pod_sandbox(two.sandbox_id)

        def sandboxes(**wanted: object) -> list[str]:
            request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(**wanted))
            found = cri.call("ListPodSandbox", request, pb.ListPodSandboxResponse)
            return [item.id for item in found.items]

        def containers(**wanted: object) -> list[str]:
            request = pb.ListContainersRequest(filter=pb.ContainerFilter(**wanted))
            found = cri.call("ListContainers", request, pb.ListContainersResponse)
            return [item.id for item in found.containers]

        assert sandboxes() == [one.sandbox_id, two.sandbox_id]
        assert sandboxes(label_selector={"n": "1"}) == [one.sandbox_id]
        stopped = pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)
        assert sandboxes(state=stopped) == [two.sandbox_id]
        running = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)
        assert containers(state=running) == [one.container_id]
        assert containers(pod_sandbox_id=two.sandbox_id) == [two.container_id]
        assert containers(label_selector={"n": "1"}) == []


class TestWire:
    def test_both_versions(self, embedded, cri):
        with Cri(embedded.address, "runtime.v1alpha2") as old:
            assert old.version().runtime_api_version == "v1alpha2"
        assert cri.version().runtime_api_version == "v1"
        assert all(c.status for c in cri.status().status.conditions)
        assert [r.service for r in embedded.runtime.requests] == [
            *("runtime.v1alpha2", "runtime.v1", "runtime.v1")
        ]

    def test_unknown_methods_and_services(self, cri):
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            cri.call("Checkpoint", pb.VersionRequest(), pb.VersionResponse)
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            cri.list_images()

    def test_requests_are_kept_raw(self, embedded, cri):
        # A field this proto does not know.
        strange = pb.PodSandboxConfig.FromString(b"\x9a\x06\x02hi")
        strange.MergeFrom(batch_pod_config().sandbox)
        cri.run_pod_sandbox(strange)
        (data,) = embedded.requests_of("RunPodSandbox")
        assert pb.RunPodSandboxRequest.FromString(data).config == strange
        assert b"\x9a\x06\x02hi" in data

    def test_events(self, cri):
        with cri.container_events() as events:
            events.initial_metadata()
            pod = run_pod(cri, batch_pod_config())
            remove_pod(cri, pod)
            seen = [next(events) for _ in range(4)]
        kinds = [event.container_event_type for event in seen]
        assert kinds == [
            pb.CONTAINER_CREATED_EVENT,
            pb.CONTAINER_STARTED_EVENT,
            pb.CONTAINER_STOPPED_EVENT,
            pb.CONTAINER_DELETED_EVENT,
        ]
        assert {event.container_id for event in seen} == {pod.container_id}
        assert seen[1].pod_sandbox_status.id == pod.sandbox_id

    async def test_in_the_same_loop(self, tmp_path):
        runtime = DemoRuntime(tmp_path / "cgroup")
        async with (
            serve(runtime, tmp_path / "runtime.sock"),
            AsyncCri(tmp_path / "runtime.sock") as cri,
        ):
            request = pb.RunPodSandboxRequest(config=batch_pod_config().sandbox)
            made = await cri.call("RunPodSandbox", request, pb.RunPodSandboxResponse)
        assert made.pod_sandbox_id
        assert [r.method for r in runtime.requests] == ["RunPodSandbox"]

    def test_as_a_program(self, tmp_path):
        socket, root = tmp_path / "runtime.sock", tmp_path / "cgroup"
        program = [sys.executable, "-m", "koord_demo.runtime"]
        with subprocess.Popen(
            [*program, "--socket", socket, "--root", root], stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stderr.readline().startswith("embedded runtime: CRI on ")
                with Cri(socket) as cri:
                    pod = run_pod(cri, batch_pod_config())
                assert list(root.rglob(f"{pod.container_id}/cpu.shares"))
            finally:
                process.terminate()
            assert process.wait(PATIENCE) == 0
