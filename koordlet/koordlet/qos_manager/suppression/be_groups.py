"""The cgroups that limit best-effort pods, and their current values. No IO.

The group above all of them and all below it. Under the kubelet's static policy only those of
containers and below: the kubelet writes the cpusets of new containers itself, and the kernel
takes (v1) or heeds (v2) only CPUs that the groups above have.
"""

from __future__ import annotations

from koord_host.knobs.forms import NO_LIMIT
from koord_host.planning.desired_values import DesiredValue, Target

from koordlet.qos_manager.core.strategy import StrategyView
from koordlet.qos_manager.suppression.be_cpus import STATIC, cpus_now

CPUSET, QUOTA, PERIOD = "cpuset.cpus", "cpu.cfs_quota_us", "cpu.cfs_period_us"


def is_static(view: StrategyView) -> bool:
    """True if the kubelet assigns CPUs to containers itself."""
    return view.node.topology is not None and view.node.topology.kubelet_policy == STATIC


def groups(view: StrategyView) -> tuple[str, ...]:
    """The groups whose cpusets are written; sandboxes' too, and those of unknown pods."""
    below = view.cgroups.below(view.be_group, "cpuset")
    if not is_static(view):
        return (view.be_group, *below)
    depth = view.be_group.count("/") + 2
    return tuple(group for group in below if group.count("/") >= depth)


def cpus_found(view: StrategyView) -> frozenset[int]:
    """The CPUs that best-effort pods have, as the cgroups say; all where they say nothing."""
    online = frozenset(processor.id for processor in view.cpus)
    sources = groups(view) if is_static(view) else (view.be_group,)
    found = (cpus_now(view, group) & online for group in sources)
    return min((cpus for cpus in found if cpus), key=len, default=online)


def number_now(view: StrategyView, knob: str) -> int | None:
    """A number of the group above all of them."""
    found = view.cgroups.now(view.be_group, knob)
    return found if isinstance(found, int) else None


def left_behind(view: StrategyView) -> tuple[DesiredValue, ...]:
    """Current values of these groups, as desired values, where koordlet has changed them."""
    every = (view.be_group, *view.cgroups.below(view.be_group, "cpuset"))
    targets = [Target(group, CPUSET) for group in every] + [Target(view.be_group, QUOTA)]
    found = ((target, view.cgroups.now(*target)) for target in targets)
    return tuple(
        DesiredValue(target, value, "held as it was found")
        for target, value in found
        if value is not None and value not in ("", NO_LIMIT) and value != view.cgroups.base(*target)
    )
