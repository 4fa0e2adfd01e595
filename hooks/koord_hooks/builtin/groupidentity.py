"""Latency-sensitive pods go before best-effort ones on the CPU.

Each class has an identity from -1 (yields to everyone) to 2, which the NodeSLO gives
under the policy ``groupIdentity``; an LS pod may have another by its annotation
``koordinator.sh/cpuQOS``. What is not enabled has 0, as if nothing were set.

Kernels with ``cpu.bvt_warp_ns`` take the identity as it is: of pods, of the groups
above them (guaranteed always 0: it holds the others) and of host applications.

**Mainline kernels** have ``cpu.idle`` instead, which is all or nothing: below 0 is
idle, anything else is not. Idle is set

- on the besteffort group, where the agent may (``koord_model.class_idle`` says why it
  may not, as a rule; its weight is then the least one, as the kubelet sets it);
- on a pod's own group only where no besteffort group is above it. The kernel takes
  no weight for an idle group, and pods below besteffort are to keep theirs among
  themselves;
- on the groups of host applications.

Without ``cpu.idle`` too, the besteffort group has the least weight: nothing more.

What the fallback does not do:

- keep best-effort pods off the hyper-thread beside a latency-sensitive one: that is
  the policy ``coreSched``;
- distinguish 0, 1 and 2: LS pods are no better off than pods without a class;
- preempt for a pod that wakes up beyond what the kernel does for it against idle
  groups; between besteffort pods, nothing;
- lift an LS pod out of the besteffort group it is in.
"""

from __future__ import annotations

from koord_model import class_idle
from koord_model.cpu_qos import any_enabled, kube_class, own_cpu_qos, strategy_class
from koord_model.node import NodeView
from koord_model.node_slo import CPUPolicy, HostApplication, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class

from koord_hooks.specs import hookimpl

_BVT = "cpu.bvt_warp_ns"
_NONE = 0


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    identity, why, ignored = _of_pod(pod, view.slo)
    knobs, shown = _knobs(identity, view, below=kube_qos(pod.cgroup_parent))
    if not (knobs or ignored):
        return None
    return Patch(knobs=knobs, why=f"{why} → {shown}" if knobs else "", ignored=ignored)


@hookimpl
def reconcile_kube_qos(kube_qos: KubeQoS, view: NodeView) -> Patch | None:
    qos = kube_class(kube_qos, view.slo)
    identity = _NONE if kube_qos is KubeQoS.GUARANTEED else _of_class(qos, view.slo)
    why = f"{kube_qos} group, identity {identity}"
    if _BVT in view.kernel.knobs:
        return Patch(knobs={_BVT: identity}, why=f"{why} → {_BVT} {identity}")
    if view.slo.cpu_policy is not CPUPolicy.GROUP_IDENTITY:
        return None  # cpu.idle is then the other policy's
    return class_idle.idle_patch(kube_qos, idle=identity < 0, why=why, view=view)


@hookimpl
def reconcile_host_application(application: HostApplication, view: NodeView) -> Patch | None:
    known = application.qos not in (QoSClass.SYSTEM, QoSClass.NONE)
    identity = _of_class(application.qos, view.slo) if known else _NONE
    knobs, shown = _knobs(identity, view)
    named = f"host application {application.name}, class {application.qos or 'none'}"
    return Patch(knobs=knobs, why=f"{named}, identity {identity} → {shown}") if knobs else None


@hookimpl
def reconcile_node(view: NodeView) -> NodePatch | None:
    """Both can be switched off in kernels that have them, and exclude each other."""
    if _BVT not in view.kernel.knobs or not _in_force(view.slo):
        return None
    return NodePatch(
        sysctls={"kernel.sched_group_identity_enabled": "1", "kernel.sched_core": "0"},
        why="cpuPolicy groupIdentity",
    )


def _in_force(slo: NodeSLO) -> bool:
    return slo.cpu_policy is CPUPolicy.GROUP_IDENTITY and any_enabled(slo)


def _of_class(qos: QoSClass, slo: NodeSLO) -> int:
    strategy = slo.of(qos).cpu
    return strategy.group_identity if _in_force(slo) and strategy.enable else _NONE


def _of_pod(pod: Pod, slo: NodeSLO) -> tuple[int, str, tuple[str, ...]]:
    """The identity, why, and lines on what of the annotation was ignored.

    Only LS pods may choose: a best-effort pod could otherwise make itself one of the
    first, and LSR pods are what the cluster makes them. Koordinator takes an annotation
    without ``enable`` for a switched off one; here it counts as on.
    """
    qos = strategy_class(pod, slo)
    identity = _of_class(qos, slo)
    why = f"class {qos}, identity {identity}"
    if qos_class(pod.labels) is not QoSClass.LS or not _in_force(slo):
        return identity, why, ()
    try:
        own, ignored = own_cpu_qos(pod)
    except ValueError as error:
        return identity, why, (str(error),)
    if own is None:
        return identity, why, ignored
    if not own.enable:
        return _NONE, "cpuQOS annotation, not enabled, identity 0", ignored
    if own.group_identity is None:
        return identity, why, ignored
    return own.group_identity, f"cpuQOS annotation, identity {own.group_identity}", ignored


def _knobs(
    identity: int, view: NodeView, below: KubeQoS | None = None
) -> tuple[dict[str, int | str], str]:
    """The knob of one group, in the class group ``below``, and how to show it."""
    if _BVT in view.kernel.knobs:
        return {_BVT: identity}, f"{_BVT} {identity}"
    if class_idle.KNOB not in view.kernel.knobs:
        return {}, ""
    if identity < 0 and below is KubeQoS.BEST_EFFORT:
        return {class_idle.KNOB: 0}, f"{class_idle.KNOB} 0 (idle is its class's group, if any)"
    idle = int(identity < 0)
    return {class_idle.KNOB: idle}, f"{class_idle.KNOB} {idle}"
