"""Pods as eviction plugins get them: whole, in Kubernetes' protobuf. No IO.

The API server's bytes are sliced and spliced as they are. Where it is not asked, or has not said
yet, a message is made of what the kubelet's list says: names, labels, annotations, priority,
containers with requests and limits, phase and start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from google.protobuf.message import DecodeError
from koord_model.demand import Amounts
from koord_model.keys import CPU
from koord_model.qos import kube_qos
from koord_proto.eviction_plugin_pb2 import PodsRequest
from koord_proto.kubernetes_pb2 import EncodedList, Envelope, Pod, Quantity

from koordlet.states_informer.state.pod_inventory import PodRecord

PROTOBUF = "application/vnd.kubernetes.protobuf"
"""Media type of ``slice_list``'s input."""
_MAGIC = b"k8s\0"


def slice_list(body: bytes) -> dict[str, bytes]:
    """Each pod's own bytes in a PodList of the API server, by UID.

    Raises:
        ValueError: it is not one.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("is not a list in Kubernetes' protobuf")
    try:
        items = EncodedList.FromString(Envelope.FromString(body[len(_MAGIC) :]).raw).items
        return {Pod.FromString(item).metadata.uid: item for item in items}
    except DecodeError:
        raise ValueError("is not a list in Kubernetes' protobuf") from None


def make_message(record: PodRecord, node: str) -> bytes:
    """The bytes of a pod as far as the kubelet's list says it."""
    pod, demand = record.pod, record.demand
    message = Pod()
    meta = message.metadata
    meta.name, meta.namespace, meta.uid = pod.name, pod.namespace, pod.uid
    meta.labels.update(pod.labels)
    meta.annotations.update(pod.annotations)
    message.spec.node_name = node
    message.status.qos_class = kube_qos(pod.cgroup_parent).value
    if demand is None:
        return message.SerializeToString()
    message.spec.priority = demand.priority or 0
    message.spec.priority_class_name = demand.priority_name
    message.status.phase = demand.phase
    message.status.start_time.seconds = int(demand.started)
    for name, requests in demand.container_requests.items():
        container = message.spec.containers.add(name=name)
        _fill(container.resources.requests, requests)
        _fill(container.resources.limits, demand.container_limits.get(name, {}))
    return message.SerializeToString()


def active_pods(pods: Iterable[bytes]) -> bytes:
    """The bytes of a request about these pods; of messages in a row protobuf makes one."""
    return PodsRequest(active_pods=list(pods)).SerializeToString()


def top_of(scope: str, number: int) -> bytes:
    """The rest of GetTopEvictionPods: so many pods, 0 for all."""
    return PodsRequest(topN=number, eviction_scope=scope).SerializeToString()


def _fill(quantities: Mapping[str, Quantity], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        # A protobuf map makes the value by being asked for it.
        quantities[name].string = f"{amount}m" if name == CPU else str(amount)
