"""Pods that do not trust each other, or would slow each other, never share a core.

The NodeSLO's policy ``coreSched`` gives each container a core scheduling group: the
kernel runs tasks of different groups on the hyper-threads of one core at no time.
The group is

- the label ``koordinator.sh/core-sched-group-id``, or the group of all pods without;
- the pod's UID where the label ``core-sched-policy`` is "exclusive";
- none where that label is "none", or the pod's class is not enabled.

Classes with ``coreExpeller`` have groups of their own, so that no best-effort pod is
beside theirs even where the label is the same. A label names a group of labels only, never
a pod's own or an expelling class's, whatever it says. SYSTEM pods are left out altogether:
the agent itself is one, and tasks without a group are what others are taken back to.

Here groups have names only; the host gives their tasks cookies.

Classes with ``schedIdle`` are idle besides (``cpu.idle`` on the class's group), where the
agent may do that: ``koord_model.class_idle`` says why it may not, as a rule.
"""

from __future__ import annotations

from dataclasses import replace

from koord_model import class_idle
from koord_model.core_sched import NO_GROUP, CoreSchedGroup, GroupKind
from koord_model.cpu_qos import any_enabled, kube_class, strategy_class
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_CORE_SCHED_GROUP, LABEL_CORE_SCHED_POLICY
from koord_model.node import NodeView
from koord_model.node_slo import CPUPolicy, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass, qos_class

from koord_hooks.specs import hookimpl

_POLICIES = ("", "none", "exclusive")


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    """The same for every container, and for the sandbox, which is asked about as one."""
    pod = container.pod
    if not view.kernel.core_sched or qos_class(pod.labels) is QoSClass.SYSTEM:
        return None
    policy = pod.labels.get(LABEL_CORE_SCHED_POLICY, "")
    group, why = _group(pod, policy, view.slo)
    return Patch(core_sched=group, why=why, ignored=_problems(pod, policy))


@hookimpl
def reconcile_kube_qos(kube_qos: KubeQoS, view: NodeView) -> Patch | None:
    if view.slo.cpu_policy is not CPUPolicy.CORE_SCHED:
        return None  # cpu.idle is then the other policy's
    strategy = view.slo.of(kube_class(kube_qos, view.slo)).cpu
    idle = strategy.sched_idle == 1
    why = f"{kube_qos} group, schedIdle {strategy.sched_idle}"
    patch = class_idle.idle_patch(kube_qos, idle=idle, why=why, view=view)
    if not idle or not (reason := class_idle.refused(kube_qos, view)):
        return patch
    line = f"NodeSLO: schedIdle is 1 for the {kube_qos} group, which is not made idle: {reason}"
    return replace(patch or Patch(), ignored=(line,))


@hookimpl
def reconcile_node(view: NodeView) -> NodePatch | None:
    """Some kernels have a switch, and let group identity exclude core scheduling."""
    if not (view.kernel.core_sched and _in_force(view.slo)):
        return None
    sysctls = {"kernel.sched_core": "1"}
    if "cpu.bvt_warp_ns" in view.kernel.knobs:
        sysctls["kernel.sched_group_identity_enabled"] = "0"
    return NodePatch(sysctls=sysctls, why="cpuPolicy coreSched")


def _in_force(slo: NodeSLO) -> bool:
    return slo.cpu_policy is CPUPolicy.CORE_SCHED and any_enabled(slo)


def _group(pod: Pod, policy: str, slo: NodeSLO) -> tuple[CoreSchedGroup, str]:
    qos = strategy_class(pod, slo)
    strategy = slo.of(qos).cpu
    if not (_in_force(slo) and strategy.enable):
        return NO_GROUP, f"core scheduling is not enabled for class {qos} → no group"
    if policy == "none":
        return NO_GROUP, "core-sched-policy none → no group"
    expeller, label = strategy.core_expeller, pod.labels.get(LABEL_CORE_SCHED_GROUP, "")
    if policy == "exclusive":
        group, why = CoreSchedGroup(GroupKind.POD, pod.uid, expeller), "core-sched-policy exclusive"
    elif label:
        group = CoreSchedGroup(GroupKind.LABEL, label, expeller)
        why = f"core-sched-group-id {label}"
    else:
        group, why = CoreSchedGroup(GroupKind.DEFAULT, "", expeller), "no core-sched-group-id"
    return group, f"{why}, class {qos} → group {group}"


def _problems(pod: Pod, policy: str) -> tuple[str, ...]:
    if policy in _POLICIES:
        return ()
    named = f"pod {pod.full_name}: label {LABEL_CORE_SCHED_POLICY}"
    return (f"{named} is {excerpt(policy)}; expected none or exclusive (default group kept)",)
