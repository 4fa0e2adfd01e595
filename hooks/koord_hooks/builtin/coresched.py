"""Pods that do not trust each other, or would slow each other, never share a core.

The NodeSLO's policy ``coreSched`` gives each container a core scheduling group: the
kernel runs tasks of different groups on the hyper-threads of one core at no time.
The group is

- the label ``koordinator.sh/core-sched-group-id``, or the group of all pods without;
- the pod's UID where the label ``core-sched-policy`` is "exclusive";
- none where that label is "none", or the pod's class is not enabled.

Classes with ``coreExpeller`` have groups of their own (suffix "-expeller"), so that no
best-effort pod is beside theirs even where the label is the same. SYSTEM pods are
left out altogether: the agent itself is one, and tasks without a group are what
others are taken back to.

Here groups have names only; the host gives their tasks cookies.

Classes with ``schedIdle`` are idle besides (``cpu.idle`` on the class's group), where the
agent may do that: ``koord_model.class_idle`` says why it may not, as a rule.
"""

from __future__ import annotations

from dataclasses import replace

from koord_model import class_idle
from koord_model.cpu_qos import any_enabled, kube_class, strategy_class
from koord_model.excerpt import excerpt
from koord_model.keys import LABEL_CORE_SCHED_GROUP, LABEL_CORE_SCHED_POLICY
from koord_model.node import NodeView
from koord_model.node_slo import CPUPolicy, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass, qos_class

from koord_hooks.specs import hookimpl

_NO_GROUP = ""
_WITHOUT_LABEL = "(default)"
"""The group of pods without the label; no label's value has brackets."""
_EXPELLER = "-expeller"
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
def level_kube_qos(kube_qos: KubeQoS, view: NodeView) -> Patch | None:
    if view.slo.cpu_policy is not CPUPolicy.CORE_SCHED:
        return None  # cpu.idle is then the other policy's
    strategy = view.slo.of(kube_class(kube_qos, view.slo)).cpu
    idle = strategy.sched_idle == 1
    why = f"{kube_qos} group, schedIdle {strategy.sched_idle}"
    patch = class_idle.level(kube_qos, idle=idle, why=why, view=view)
    if not idle or not (reason := class_idle.refused(kube_qos, view)):
        return patch
    line = f"NodeSLO: schedIdle is 1 for the {kube_qos} group, which is not made idle: {reason}"
    return replace(patch or Patch(), ignored=(line,))


@hookimpl
def level_node(view: NodeView) -> NodePatch | None:
    """Some kernels have a switch, and let group identity exclude core scheduling."""
    if not (view.kernel.core_sched and _in_force(view.slo)):
        return None
    sysctls = {"kernel.sched_core": "1"}
    if "cpu.bvt_warp_ns" in view.kernel.knobs:
        sysctls["kernel.sched_group_identity_enabled"] = "0"
    return NodePatch(sysctls=sysctls, why="cpuPolicy coreSched")


def _in_force(slo: NodeSLO) -> bool:
    return slo.cpu_policy is CPUPolicy.CORE_SCHED and any_enabled(slo)


def _group(pod: Pod, policy: str, slo: NodeSLO) -> tuple[str, str]:
    qos = strategy_class(pod, slo)
    strategy = slo.of(qos).cpu
    if not (_in_force(slo) and strategy.enable):
        return _NO_GROUP, f"core scheduling is not enabled for class {qos} → no group"
    if policy == "none":
        return _NO_GROUP, "core-sched-policy none → no group"
    group = pod.labels.get(LABEL_CORE_SCHED_GROUP, "") or _WITHOUT_LABEL
    why = f"core-sched-group-id {group}"
    if policy == "exclusive":
        group, why = pod.uid, "core-sched-policy exclusive"
    if strategy.core_expeller:
        group += _EXPELLER
    return group, f"{why}, class {qos} → group {group}"


def _problems(pod: Pod, policy: str) -> tuple[str, ...]:
    if policy in _POLICIES:
        return ()
    named = f"pod {pod.full_name}: label {LABEL_CORE_SCHED_POLICY}"
    return (f"{named} is {excerpt(policy)}; expected none or exclusive (default group kept)",)
