"""Pods for eviction plugins, as a real API server encodes them."""

from __future__ import annotations

from functools import partial

from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import field_is
from koord_model.qos import QoSClass
from koord_proto.kubernetes_pb2 import Pod
from koordlet.qos_manager.eviction.plugins.core.pods import PROTOBUF
from koordlet.qos_manager.eviction.plugins.pod_messages import MOST_LIST, PodMessages

from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.views import pod_view


def _pod(name: str, node: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"evict": "named"}},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": "1500m"}}}
            ],
        },
    }


async def test_pods_of_the_node_come_whole(server: KubeApiserver) -> None:
    server.kubectl("create", "serviceaccount", "default", "-n", "default")
    config = str(server.kubeconfig("admin", ADMIN))
    async with await connect(config, Limits(qps=0)) as client:
        made = [await client.create(PODS, _pod(name, "n1"), "default") for name in ("a", "b")]
        await client.create(PODS, _pod("elsewhere", "n2"), "default")
        read = partial(client.encoded_list, PODS, field_is("spec.nodeName", "n1"), PROTOBUF)
        uids = [one["metadata"]["uid"] for one in made]
        records = [pod_view("x", qos=QoSClass.BE, uid=uid).record for uid in uids]
        found = await PodMessages("n1", partial(read, MOST_LIST)).of(records)
    assert sorted(found) == sorted(uids)
    pods = [Pod.FromString(said) for said in found.values()]
    assert sorted(pod.metadata.name for pod in pods) == ["a", "b"]
    assert {pod.metadata.labels["evict"] for pod in pods} == {"named"}
    assert {pod.spec.node_name for pod in pods} == {"n1"}
    # What is not declared passes through.
    assert all(b"busybox:1" in pod.SerializeToString() for pod in pods)
