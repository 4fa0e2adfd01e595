"""Computes the desired state of the node from the patches of plugins. No IO.

What a CRI request carries is set by the runtime when a container is made. The same
values are desired of the kernel's files here, so that running pods are reconciled
too, also those that were started while hooks were not called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from koord_hooks.runner import HookResult, HookRunner
from koord_hooks.stages import Stage
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.core_sched import CoreSchedGroup
from koord_model.node import NodeView
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod, runs_in_vm
from koord_model.qos import KubeQoS
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import RESOURCE_FIELDS

from koordlet.states_informer.state.cgroup_paths import container_group, host_application_group
from koordlet.states_informer.state.pod_inventory import PodRecord

KNOB_OF = {field.name: field.knob for field in RESOURCE_FIELDS if field.knob}
"""The limits of a request, and the knobs that a runtime sets for them."""


@dataclass(frozen=True, slots=True)
class DesiredTasks:
    """The desired state of the tasks in one cgroup, whichever they are when it is applied."""

    group: str
    oom_score_adj: int | None = None
    core_sched: CoreSchedGroup | None = None


@dataclass(frozen=True, slots=True)
class DesiredState:
    """All that the plugins want of one pod that runs, or of one other scope.

    ``groups`` are the cgroups whose tasks ``resctrl`` is about.
    ``outcomes_to_log`` are outcomes with something to log, each with its subject's fields.
    ``skipped`` says why host-side knobs are left alone, "" where they are not.
    """

    scope: str
    pod: str = ""
    values: tuple[DesiredValue, ...] = ()
    tasks: tuple[DesiredTasks, ...] = ()
    resctrl: ResctrlLimits | None = None
    groups: tuple[str, ...] = ()
    outcomes_to_log: tuple[
        tuple[Mapping[str, str], HookResult[Patch] | HookResult[NodePatch]], ...
    ] = ()
    skipped: str = ""


def pod_scope(uid: str) -> str:
    """The scope of a pod's desired values."""
    return f"pod {uid}"


def compute_pod(
    record: PodRecord,
    sandboxes: tuple[str, ...],
    runner: HookRunner,
    view: NodeView,
    layout: Layout,
) -> DesiredState:
    """Compute plugins' desired state of a pod, its containers and its sandboxes (cgroup names).

    A sandbox is asked about as a container without a name.
    """
    pod, scope = record.pod, pod_scope(record.pod.uid)
    if runs_in_vm(pod):
        return DesiredState(scope, pod.full_name, skipped=_why_vm(pod))
    group = layout.group_of_parent(pod.cgroup_parent)
    if layout.is_shared(group):
        why = f'cgroup "/{group}" is not the pod\'s own'
        return DesiredState(scope, pod.full_name, skipped=why)
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
    return _desired_state(scope, parts, pod.full_name)


def _why_vm(pod: Pod) -> str:
    if pod.runtime_handler:
        return f'runtime handler "{pod.runtime_handler}": the pod runs in a virtual machine'
    return (
        f'runtime class "{pod.runtime_class}": the pod may run in a virtual machine, as long as '
        "neither a hook call nor NRI has named the class's handler"
    )


def compute_kube_qos(runner: HookRunner, view: NodeView, layout: Layout) -> DesiredState:
    """Compute plugins' desired state of the cgroups of Kubernetes' own classes."""
    parts = [
        (layout.kube_qos_group(qos), runner.reconcile_kube_qos(qos, view), {"class": qos.value})
        for qos in KubeQoS
    ]
    return _desired_state("kube qos", parts, "")


def compute_host_applications(runner: HookRunner, view: NodeView, layout: Layout) -> DesiredState:
    """Compute plugins' desired state of the cgroups of applications outside Kubernetes."""
    parts = [
        (
            host_application_group(application, layout),
            runner.reconcile_host_application(application, view),
            {"application": application.name},
        )
        for application in view.slo.host_applications
    ]
    return _desired_state("host applications", parts, "")


def _containers(
    record: PodRecord, runner: HookRunner, view: NodeView, layout: Layout
) -> Iterator[tuple[str, HookResult[Patch], dict[str, str]]]:
    for container in record.containers.values():
        place = container_group(record, container, layout)
        subject = {"pod": record.pod.full_name, "container": container.name}
        yield place, _ask(container, runner, view), subject


def _ask(container: Container, runner: HookRunner, view: NodeView) -> HookResult[Patch]:
    return runner.run(Stage.PRE_CREATE_CONTAINER, container, view)


def _without_oom(outcome: HookResult[Patch]) -> HookResult[Patch]:
    """A sandbox keeps the score its runtime gave it: it must outlive its containers."""
    resources = replace(outcome.patch.resources, oom_score_adj=None)
    return replace(outcome, patch=replace(outcome.patch, resources=resources))


def _desired_state(
    scope: str, parts: list[tuple[str, HookResult[Patch], dict[str, str]]], pod: str
) -> DesiredState:
    values = [
        value for group, outcome, _ in parts for value in _desired_values(group, outcome.patch, pod)
    ]
    tasks = [
        DesiredTasks(group, outcome.patch.resources.oom_score_adj, outcome.patch.core_sched)
        for group, outcome, _ in parts
    ]
    resctrl = next(
        (outcome.patch.resctrl for _, outcome, _ in parts if outcome.patch.resctrl), None
    )
    outcomes_to_log = [
        (subject, outcome) for _, outcome, subject in parts if _is_worth_logging(outcome)
    ]
    wanted = tuple(task for task in tasks if (task.oom_score_adj, task.core_sched) != (None, None))
    groups = tuple(group for group, _, _ in parts) if resctrl is not None else ()
    return DesiredState(scope, pod, tuple(values), wanted, resctrl, groups, tuple(outcomes_to_log))


def _desired_values(group: str, patch: Patch, pod: str) -> Iterator[DesiredValue]:
    for name, value in _values(patch):
        yield DesiredValue(Target(group, name), value, patch.why, pod)


def _values(patch: Patch) -> Iterator[tuple[str, Value]]:
    for field, knob in KNOB_OF.items():
        value = getattr(patch.resources, field)
        # An empty CPU list clears what a request has; of a cgroup it says nothing.
        if value is not None and value != "":
            yield knob, value
    yield from patch.knobs.items()


def _is_worth_logging(outcome: HookResult[Patch]) -> bool:
    return bool(outcome.failures or outcome.conflicts or outcome.patch.ignored)
