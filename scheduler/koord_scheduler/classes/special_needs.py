"""What few pods ask for: features of kubelets, and plugins that not every profile has. No IO."""

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


def needed_plugins(spec: SchedulingSpec) -> tuple[str, ...]:
    """The plugins without which a pod would be placed and not have what it asks for."""
    return ("GangScheduling",) if spec.scheduling_group else ()
