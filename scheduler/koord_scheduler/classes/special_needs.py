"""What few pods ask for: features of kubelets, and what this scheduler cannot do. No IO."""

from __future__ import annotations

from koord_scheduler.objects.pod import PodInfo, SchedulingSpec

_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USER_NAMESPACES = "UserNamespacesHostNetworkSupport"


def required_features(pod: PodInfo) -> tuple[str, ...]:
    """The features that a pod needs of its node, as Kubernetes infers them."""
    spec, found = pod.spec, []
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    rules = (rule for one in containers for rule in one.restart_policy_rules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.append(_RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.append(_USER_NAMESPACES)
    return tuple(found)


def unsupported_fields(spec: SchedulingSpec, *, has_groups: bool = False) -> tuple[str, ...]:
    """Why a pod would be placed and not have what it asks for: fields, and the plugins for them.

    An API server drops fields of which the feature is off (GenericWorkload). The second one is
    that of Kubernetes 1.35. ``has_groups``: the first one is understood.
    """
    group = None if has_groups else spec.scheduling_group
    groups = {"schedulingGroup": group, "workloadRef": spec.workload_ref}
    return tuple(
        f"spec.{name} needs the plugin GangScheduling" for name, one in groups.items() if one
    )
