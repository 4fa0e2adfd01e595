from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_model.patch import Device, Mount, Patch
from koord_model.pod import Container, Pod
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import LinuxResources
from koord_proto import nri_pb2 as pb
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.runtime_hooks.hook_answers import HookAnswers
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.nri.hook_handler import HookHandler, changes, overlaid
from koordlet.runtime_hooks.nri.protocol.handler import handled_events

from tests.support.nri_limits import resources

SANDBOX = pb.PodSandbox(id="s1", name="web-1", namespace="shop", uid="u1")
SANDBOX.linux.cgroup_parent = "/kubepods/podu1"
CONTAINER = pb.Container(id="c1", pod_sandbox_id="s1", name="main", state=pb.CONTAINER_RUNNING)


class Node:
    """Records events."""

    view = NodeView()

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.synchronized: tuple[list[Pod], list[Container]] | None = None
        self.groups = {"koordlet-made"}

    def current(self, container: Container) -> Container:
        return container

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        self.seen.append((stage.value, subject.name))

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        self.synchronized = (list(pods), list(running))

    def has_cache_group(self, group: str) -> bool:
        return group in self.groups


CREATE = pb.CreateContainerRequest(pod=SANDBOX, container=CONTAINER)


def handler(patch: Patch | None = None, *more: Any, answers=None, **hooks: Any) -> tuple[Any, Node]:
    """A handler with one plugin, and its node; ``more`` are further arguments."""
    wanted = hooks or {
        name: lambda: patch for name in ("pre_create_container", "pre_update_container_resources")
    }
    plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in wanted.items()})
    node, runner = Node(), HookRunner([("p", plugin)])
    log = LogDeduplicator()
    return HookHandler(runner, node, HookMetrics(), log, *more, answers=answers), node


def created(patch: Patch, **present: int) -> Any:
    """The adjustment of a container that has these limits."""
    container = pb.Container()
    container.CopyFrom(CONTAINER)
    container.linux.resources.CopyFrom(resources(**present))
    made, _ = handler(patch)
    answer = made.create_container(pb.CreateContainerRequest(pod=SANDBOX, container=container))
    return None if answer is None else answer.adjust


def test_wishes_become_an_adjustment_and_a_missing_mount_is_left_out():
    adjust = created(
        Patch(
            env={"A": "1"},
            annotations={"x": "y"},
            mounts={
                "/in": Mount("/dev/null", ("rbind", "ro")),
                "/none": Mount("/does-not-exist", ("rbind", "ro")),
            },
            resources=LinuxResources(cpu_shares=2, oom_score_adj=7),
        )
    )
    assert [(one.key, one.value) for one in adjust.env] == [("A", "1")]
    assert adjust.annotations == {"x": "y"}
    [mount] = adjust.mounts
    assert (mount.destination, mount.source) == ("/in", "/dev/null")
    assert list(mount.options) == ["rbind", "ro"]
    assert adjust.linux.resources == resources(cpu_shares=2)
    assert adjust.linux.oom_score_adj.value == 7


def test_what_is_left_out_of_an_answer_is_not_reported_as_changed():
    patch = Patch(
        mounts={"/in": Mount("/dev/null"), "/none": Mount("/does-not-exist")},
        devices={"/dev/none": Device("/does-not-exist")},
        resctrl=ResctrlLimits("koordlet-other"),
    )
    answers = HookAnswers()
    made, _ = handler(patch, answers=answers)
    made.create_container(CREATE)
    [kept] = answers.find(lambda _: True)
    assert (kept.answer.transport, kept.answer.hook) == ("NRI", "PreCreateContainer")
    [reported] = kept.answer.plugins
    assert reported.fields == (("mounts[/in]", None, "/dev/null"),)


def test_what_is_so_already_is_not_adjusted_again():
    present = {"cpu_shares": 2, "cpu_quota": 5000}
    assert created(Patch(resources=LinuxResources(cpu_shares=2)), **present) is None
    adjust = created(Patch(resources=LinuxResources(cpu_shares=2, cpu_quota=-1)), **present)
    assert adjust.linux.resources == resources(cpu_quota=-1)


def test_an_rdt_class_only_where_the_group_has_been_made():
    assert created(Patch(resctrl=ResctrlLimits("koordlet-other"))) is None
    adjust = created(Patch(resctrl=ResctrlLimits("koordlet-made")))
    assert adjust.linux.resources.rdt_class.value == "koordlet-made"


def test_devices_have_the_host_s_numbers_and_a_missing_one_is_left_out():
    devices = {"/dev/null": Device("/dev/null"), "/dev/none": Device("/dev/does-not-exist")}
    [device] = created(Patch(devices=devices)).linux.devices
    assert (device.path, device.type, device.major, device.minor) == ("/dev/null", "c", 1, 3)
    assert device.file_mode.value == 0o666


def test_an_update_names_its_container_and_judges_what_is_asked():
    seen: list[LinuxResources] = []

    def pre_update_container_resources(container: Container) -> Patch:
        seen.append(container.resources)
        return Patch(resources=LinuxResources(cpu_quota=-1, cpu_shares=512))

    made, _ = handler(pre_update_container_resources=pre_update_container_resources)
    request = pb.UpdateContainerRequest(
        pod=SANDBOX, container=CONTAINER, linux_resources=resources(cpu_shares=512)
    )
    [update] = made.update_container(request).update
    assert seen == [LinuxResources(cpu_shares=512)]
    assert update.container_id == "c1"
    assert update.linux.resources == resources(cpu_quota=-1)


def test_the_node_hears_what_runs():
    made, node = handler()
    made.run_pod_sandbox(pb.RunPodSandboxRequest(pod=SANDBOX))
    made.post_update_pod_sandbox(pb.PostUpdatePodSandboxRequest(pod=SANDBOX))
    made.post_start_container(pb.PostStartContainerRequest(pod=SANDBOX, container=CONTAINER))
    made.stop_container(pb.StopContainerRequest(pod=SANDBOX, container=CONTAINER))
    made.stop_pod_sandbox(pb.StopPodSandboxRequest(pod=SANDBOX))
    made.remove_pod_sandbox(pb.RemovePodSandboxRequest(pod=SANDBOX))
    assert node.seen == [
        ("PreRunPodSandbox", "web-1"),
        ("PreRunPodSandbox", "web-1"),
        ("PostStartContainer", "main"),
        ("PostStopContainer", "main"),
        ("PostStopPodSandbox", "web-1"),
        ("PreRemoveRunPodSandbox", "web-1"),
    ]


def test_synchronizing_tells_of_all_that_runs():
    made, node = handler()
    exited = pb.Container(id="c2", pod_sandbox_id="s1", state=pb.CONTAINER_STOPPED)
    orphan = pb.Container(id="c3", pod_sandbox_id="gone", state=pb.CONTAINER_RUNNING)
    request = pb.SynchronizeRequest(pods=[SANDBOX], containers=[CONTAINER, exited, orphan])
    made.synchronize(request)
    assert node.synchronized is not None
    pods, running = node.synchronized
    assert [pod.uid for pod in pods] == ["u1"]
    assert [container.id for container in running] == ["c1"]


def test_a_disabled_stage_is_not_asked():
    made, _ = handler(Patch(env={"A": "1"}), {Stage.PRE_CREATE_CONTAINER})
    assert made.create_container(CREATE) is None


def test_a_malformed_annotation_is_one_line_and_the_container_is_made(caplog):
    def pre_create_container() -> Patch:
        raise ValueError("pod shop/web-1: annotation x: no number")

    made, _ = handler(pre_create_container=pre_create_container)
    for _ in range(2):
        assert made.create_container(CREATE) is None
    assert [record.getMessage() for record in caplog.records].count("field ignored") == 1


def test_the_runtime_is_asked_for_what_is_handled():
    made, _ = handler()
    assert pb.RUN_POD_SANDBOX in handled_events(made)
    assert pb.START_CONTAINER not in handled_events(made)


def test_changes_keep_what_differs():
    present = LinuxResources(cpu_quota=5, unified={"a": "1"}, hugepage_limits={"2MB": 1})
    wanted = LinuxResources(
        cpu_quota=5, cpu_shares=2, unified={"a": "1", "b": "2"}, hugepage_limits={"2MB": 0}
    )
    assert changes(present, wanted) == LinuxResources(
        cpu_shares=2, unified={"b": "2"}, hugepage_limits={"2MB": 0}
    )


def test_the_node_hears_what_limits_a_container_is_about_to_have():
    made, node = handler(Patch())
    container = pb.Container()
    container.CopyFrom(CONTAINER)
    container.linux.resources.CopyFrom(resources(cpu_shares=2, cpu_quota=5000))
    request = pb.UpdateContainerRequest(
        pod=SANDBOX, container=container, linux_resources=resources(cpu_quota=7000)
    )
    assert made.update_container(request) is None, "it needs no change"
    assert node.seen == [("PreUpdateContainerResources", "main")]
    present = LinuxResources(cpu_shares=2, cpu_quota=5000)
    wanted = overlaid(present, LinuxResources(cpu_quota=7000, unified={"a": "1"}))
    assert wanted == LinuxResources(cpu_shares=2, cpu_quota=7000, unified={"a": "1"})
