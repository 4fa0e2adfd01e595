"""Conditions for an idle cgroup above all pods of one of Kubernetes' classes.

An idle group (``cpu.idle`` 1) runs when no sibling wants the CPU, and yields at once
to one that wakes up. What is below it keeps its weights among itself. But:

- The kernel refuses to write ``cpu.shares`` or ``cpu.weight`` of an idle group, and the
  kubelet writes those of its class groups: each minute, where it logs the refusal,
  and when it starts, where it ends with "Failed to start ContainerManager". A node
  whose besteffort group is idle may thus lose its kubelet at the next restart.
  Hence ``NodeView.idle_classes``: whoever sets it answers for the kubelet.
- A group that ceases to be idle has the weight of a new group (1024 shares), not the
  one it had. For besteffort that is 512 times too much, so that its weight is desired
  together with ``cpu.idle`` 0.
- The guaranteed class has no group but the one above all classes: never idle.
"""

from __future__ import annotations

from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.qos import KubeQoS
from koord_model.resources import LinuxResources

KNOB = "cpu.idle"

BEST_EFFORT_SHARES = 2
"""The kernel's least weight; the kubelet gives it to the besteffort group too."""


def refused(kube_qos: KubeQoS, view: NodeView) -> str:
    """Return why a class's group cannot be made idle; "" if it can."""
    if KNOB not in view.kernel.knobs:
        return "this kernel has no cpu.idle"
    if kube_qos is KubeQoS.GUARANTEED:
        return "the guaranteed group is above all classes"
    if not view.idle_classes:
        return "a kubelet cannot restart while the group is idle"
    return ""


def idle_patch(kube_qos: KubeQoS, *, idle: bool, why: str, view: NodeView) -> Patch | None:
    """The class's group made idle or not, as far as that can be; ``why`` begins the reason.

    A besteffort group that should be idle and cannot be has the least weight.
    """
    if idle and not (reason := refused(kube_qos, view)):
        return Patch(knobs={KNOB: 1}, why=f"{why} → {KNOB} 1")
    known = KNOB in view.kernel.knobs
    steps = [f"{KNOB} 0"] if known else []
    resources = LinuxResources()
    if kube_qos is KubeQoS.BEST_EFFORT and (idle or known):
        resources = LinuxResources(cpu_shares=BEST_EFFORT_SHARES)
        steps.append(f"cpu.shares {BEST_EFFORT_SHARES}")
    if not steps:
        return None
    shown = f"{why}, {reason}" if idle else why
    return Patch(
        knobs={KNOB: 0} if known else {}, resources=resources, why=f"{shown} → {', '.join(steps)}"
    )
