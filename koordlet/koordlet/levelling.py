"""From what plugins want of a subject to what is wished of the node: no IO.

What a CRI request carries is set by the runtime when a container is made. The same
values are wished of the kernel's files here, so that pods that run are levelled
too, also those that were started while nobody asked the hooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from koord_hooks.runner import HookRunner, Outcome
from koord_hooks.stages import Stage
from koord_host.forms import Value
from koord_host.layout import Layout, Runtime
from koord_host.wishes import Target, Wish
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, runs_in_vm
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resctrl import ResctrlWish

from koordlet.states.inventory import PodRecord

_KNOB_OF = {
    "cpu_period": "cpu.cfs_period_us",
    "cpu_quota": "cpu.cfs_quota_us",
    "cpu_shares": "cpu.shares",
    "memory_limit": "memory.limit_in_bytes",
    "cpuset_cpus": "cpuset.cpus",
    "cpuset_mems": "cpuset.mems",
}
_RUNTIMES = {"containerd": Runtime.CONTAINERD, "docker": Runtime.DOCKER, "cri-o": Runtime.CRIO}


@dataclass(frozen=True, slots=True)
class TaskWishes:
    """What is wished of the tasks in one cgroup, whichever they are when it is done."""

    group: str
    oom_score_adj: int | None = None
    core_sched: str | None = None


@dataclass(frozen=True, slots=True)
class Levelled:
    """All that the plugins want of one pod that runs, or of one other scope.

    ``groups`` are the cgroups whose tasks ``resctrl`` is about.
    ``told`` are outcomes with something to tell, each with its subject's fields.
    ``skipped`` says why host-side knobs are left alone, "" where they are not.
    """

    scope: str
    pod: str = ""
    wishes: tuple[Wish, ...] = ()
    tasks: tuple[TaskWishes, ...] = ()
    resctrl: ResctrlWish | None = None
    groups: tuple[str, ...] = ()
    told: tuple[tuple[Mapping[str, str], Outcome[Patch] | Outcome[NodePatch]], ...] = ()
    skipped: str = ""


def pod_scope(uid: str) -> str:
    """The name under which a pod's wishes are kept."""
    return f"pod {uid}"


def level_pod(
    record: PodRecord,
    sandboxes: tuple[str, ...],
    runner: HookRunner,
    view: NodeView,
    layout: Layout,
) -> Levelled:
    """What plugins want of a pod, its containers and its sandboxes (cgroup names).

    A sandbox is asked about as a container without a name.
    """
    pod, scope = record.pod, pod_scope(record.pod.uid)
    if runs_in_vm(pod):
        why = f'runtime handler "{pod.runtime_handler}": the pod runs in a virtual machine'
        return Levelled(scope, pod.full_name, skipped=why)
    group = layout.group_of_parent(pod.cgroup_parent)
    of_pod = runner.run(Stage.PRE_RUN_POD_SANDBOX, pod, view)
    parts = [(group, of_pod, {"pod": pod.full_name})]
    parts += list(_containers(record, runner, view, layout))
    parts += [
        (
            f"{group}/{name}",
            _without_oom(_ask(Container(pod, ""), runner, view)),
            {"pod": pod.full_name},
        )
        for name in sandboxes
    ]
    return _levelled(scope, parts, pod.full_name)


def level_kube_qos(runner: HookRunner, view: NodeView, layout: Layout) -> Levelled:
    """What plugins want of the cgroups of Kubernetes' own classes."""
    parts = [
        (layout.kube_qos_group(qos), runner.level_kube_qos(qos, view), {"class": qos.value})
        for qos in KubeQoS
    ]
    return _levelled("kube qos", parts, "")


def level_host_applications(runner: HookRunner, view: NodeView, layout: Layout) -> Levelled:
    """What plugins want of the cgroups of applications outside Kubernetes."""
    parts = [
        (
            host_application_group(application, layout),
            runner.level_host_application(application, view),
            {"application": application.name},
        )
        for application in view.slo.host_applications
    ]
    return _levelled("host applications", parts, "")


def host_application_group(application: HostApplication, layout: Layout) -> str:
    """Its cgroup: the one it names, or its class's default for applications on the host."""
    if not application.base:
        above = {QoSClass.BE: "host-best-effort/", QoSClass.SYSTEM: "", QoSClass.NONE: ""}
        return above.get(application.qos, "host-latency-sensitive/") + application.name
    base = {
        "CgroupRoot": "",
        "Kubepods": layout.kube_qos_group(KubeQoS.GUARANTEED),
        "KubepodsBurstable": layout.kube_qos_group(KubeQoS.BURSTABLE),
        "KubepodsBesteffort": layout.kube_qos_group(KubeQoS.BEST_EFFORT),
    }[application.base]
    parts = (base, application.parent_dir, application.relative_path)
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def container_group(record: PodRecord, container: Container, layout: Layout) -> str:
    """The cgroup of a container of a pod."""
    above = layout.group_of_parent(record.pod.cgroup_parent)
    runtime = _RUNTIMES.get(record.runtime, Runtime.CONTAINERD)
    return layout.container_group(above, container.id, runtime)


def _containers(
    record: PodRecord, runner: HookRunner, view: NodeView, layout: Layout
) -> Iterator[tuple[str, Outcome[Patch], dict[str, str]]]:
    for container in record.containers.values():
        place = container_group(record, container, layout)
        subject = {"pod": record.pod.full_name, "container": container.name}
        yield place, _ask(container, runner, view), subject


def _ask(container: Container, runner: HookRunner, view: NodeView) -> Outcome[Patch]:
    return runner.run(Stage.PRE_CREATE_CONTAINER, container, view)


def _without_oom(outcome: Outcome[Patch]) -> Outcome[Patch]:
    """A sandbox keeps the score its runtime gave it: it must outlive its containers."""
    resources = replace(outcome.patch.resources, oom_score_adj=None)
    return replace(outcome, patch=replace(outcome.patch, resources=resources))


def _levelled(
    scope: str, parts: list[tuple[str, Outcome[Patch], dict[str, str]]], pod: str
) -> Levelled:
    wishes = [wish for group, outcome, _ in parts for wish in _wishes(group, outcome.patch, pod)]
    tasks = [
        TaskWishes(group, outcome.patch.resources.oom_score_adj, outcome.patch.core_sched)
        for group, outcome, _ in parts
    ]
    resctrl = next((one.patch.resctrl for _, one, _ in parts if one.patch.resctrl), None)
    told = [(subject, one) for _, one, subject in parts if _worth_telling(one)]
    wanted = tuple(one for one in tasks if (one.oom_score_adj, one.core_sched) != (None, None))
    groups = tuple(group for group, _, _ in parts) if resctrl is not None else ()
    return Levelled(scope, pod, tuple(wishes), wanted, resctrl, groups, tuple(told))


def _wishes(group: str, patch: Patch, pod: str) -> Iterator[Wish]:
    for name, value in _values(patch):
        yield Wish(Target(group, name), value, patch.why, pod)


def _values(patch: Patch) -> Iterator[tuple[str, Value]]:
    for field, knob in _KNOB_OF.items():
        value = getattr(patch.resources, field)
        # An empty CPU list clears what a request has; of a cgroup it says nothing.
        if value is not None and value != "":
            yield knob, value
    yield from patch.knobs.items()


def _worth_telling(outcome: Outcome[Patch]) -> bool:
    return bool(outcome.failures or outcome.conflicts or outcome.patch.ignored)
