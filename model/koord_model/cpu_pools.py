"""The named pool of CPUs that a pod belongs to. No IO.

Katalyst's enhancement ``cpuset_pool`` names it. Only LS pods have one: others have CPUs of their
own or are best-effort. NUMA nodes that the scheduler chose go before.
"""

from __future__ import annotations

from koord_model.katalyst import cpuset_pool
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class
from koord_model.resource_status import resource_status


def pool_of(pod: Pod) -> str:
    """Return the name of the pod's pool; "" for none.

    Raises:
        ValueError: an annotation cannot be used; one line says which.
    """
    if qos_class(pod.labels) is not QoSClass.LS:
        return ""
    if kube_qos(pod.cgroup_parent) is KubeQoS.BEST_EFFORT:
        return ""
    name = cpuset_pool(pod.annotations)
    if not name:
        return ""
    status = resource_status(pod)
    return "" if status.cpuset or status.numa_nodes else name
