"""What reconciliation does for CRI only; the rest is the contract in ``test_reconciler.py``."""

from __future__ import annotations

from typing import Any

from koord_proto import cri_pb2 as cri
from koord_proxy.rules.records import RecordKind
from koord_proxy.runtime_clients.cri import CriRuntimeClient

from tests.support.runtime_nodes import CriNode


class Terse(CriRuntimeClient):
    """Of a runtime whose status has no info."""

    async def _call(self, *asked: Any) -> Any:
        answer = await super()._call(*asked)
        if isinstance(answer, cri.PodSandboxStatusResponse | cri.ContainerStatusResponse):
            answer.info.clear()
        return answer


async def test_a_runtime_that_tells_little(new_node):
    node = new_node(CriNode)
    sandbox, container = node.make("worker")
    async with node.serving():
        await node.new_reconciler(Terse).run()
    one = node.store.get(RecordKind.CONTAINER, container)
    assert one.hook_request.container_resources.cpu_shares == 2
    # The list has the pod.
    assert one.sandbox == sandbox
    assert one.hook_request.pod_meta.name == "worker"
