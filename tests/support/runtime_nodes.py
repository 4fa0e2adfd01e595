"""A runtime, the proxy's records, and what a kubelet did without the proxy: for both runtimes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from koord_demo.runtime import DemoRuntime, serve
from koord_proto import hook_pb2 as pb
from koord_proxy.contract.runtime_client import RuntimeClient
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.runtime_clients.cri import CriRuntimeClient
from koord_proxy.runtime_clients.docker import DockerRuntimeClient
from koord_proxy.store import RecordStore

from tests.support import docker_requests
from tests.support.cri import PodPlan, batch_pod_config
from tests.support.cri import pb as cri
from tests.support.docker_engine import Engine

Missed = Callable[[RuntimeRecord], Iterable[MissedHookCall]]


class RuntimeNode:
    """What both have; a pod has the name of its plan."""

    def __init__(self, directory: Path, client: type[RuntimeClient]) -> None:
        self.path = directory / "runtime.sock"
        self.client = client
        self.database = directory / "state.db"
        self.store = RecordStore(str(self.database))
        self.reconciler = self.new_reconciler()

    def new_reconciler(
        self, client: type[RuntimeClient] | None = None, missed: Missed = lambda _: ()
    ) -> RecordReconciler:
        connect: Any = client or self.client
        return RecordReconciler(self.store, lambda: connect(str(self.path)), missed)

    def killed(self) -> None:
        """The proxy begins anew, with what it has on its disk."""
        self.store.close()
        self.store = RecordStore(str(self.database))
        self.reconciler = self.new_reconciler()

    def ids(self, kind: RecordKind) -> set[str]:
        return {record.id for record in self.store.records(kind)}

    def make(self, name: str) -> tuple[str, str]:
        """A pod and its container, both started."""
        sandbox = self.run_pod(name)
        container = self.create(sandbox, name)
        self.start(container)
        return sandbox, container

    def uid(self, name: str) -> str:
        raise NotImplementedError

    def serving(self) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    def run_pod(self, name: str) -> str:
        raise NotImplementedError

    def create(self, sandbox: str, name: str) -> str:
        raise NotImplementedError

    def start(self, container: str) -> None:
        raise NotImplementedError

    def stop(self, sandbox: str, container: str) -> None:
        """Stop a pod, as a kubelet does."""
        raise NotImplementedError

    def remove(self, sandbox: str) -> None:
        raise NotImplementedError


class CriNode(RuntimeNode):
    """The embedded CRI runtime."""

    def __init__(self, directory: Path) -> None:
        self.runtime = DemoRuntime(directory / "cgroup")
        self._plans: dict[str, PodPlan] = {}
        super().__init__(directory, CriRuntimeClient)

    def plan(self, name: str) -> PodPlan:
        return self._plans.setdefault(name, batch_pod_config(name))

    def uid(self, name: str) -> str:
        return self.plan(name).sandbox.metadata.uid

    def serving(self) -> AbstractAsyncContextManager[Any]:
        return serve(self.runtime, self.path)

    def run_pod(self, name: str) -> str:
        request = cri.RunPodSandboxRequest(config=self.plan(name).sandbox)
        return self.runtime.pods.run_pod_sandbox(request).pod_sandbox_id

    def create(self, sandbox: str, name: str) -> str:
        plan = self.plan(name)
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=plan.container, sandbox_config=plan.sandbox
        )
        return self.runtime.pods.create_container(request).container_id

    def start(self, container: str) -> None:
        self.runtime.pods.start_container(cri.StartContainerRequest(container_id=container))

    def stop(self, sandbox: str, container: str) -> None:
        self.runtime.pods.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))

    def remove(self, sandbox: str) -> None:
        self.runtime.pods.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


class DockerNode(RuntimeNode):
    """A double of dockerd."""

    def __init__(self, directory: Path) -> None:
        self.engine = Engine()
        super().__init__(directory, DockerRuntimeClient)

    def uid(self, name: str) -> str:
        return f"uid-{name}"

    def serving(self) -> AbstractAsyncContextManager[Any]:
        return self.engine.serving(self.path)

    def run_pod(self, name: str, attempt: int = 0) -> str:
        request = docker_requests.create_sandbox(name, self.uid(name), attempt)
        made = self.engine.create(request)
        self.engine.start(made)
        return made

    def create(self, sandbox: str, name: str) -> str:
        request = docker_requests.create_container(sandbox=sandbox, pod=name, uid=self.uid(name))
        return self.engine.create(request)

    def start(self, container: str) -> None:
        self.engine.start(container)

    def stop(self, sandbox: str, container: str) -> None:
        for one in (container, sandbox):
            self.engine.stop(one)

    def remove(self, sandbox: str) -> None:
        self.engine.remove(sandbox)


def pod_record(id: str, uid: str = "gone", attempt: int = 0, **infos: Any) -> RuntimeRecord:  # noqa: A002
    meta = {"uid": uid, "attempt": attempt}
    return RuntimeRecord(RecordKind.POD, id, pb.PodSandboxHookRequest(pod_meta=meta, **infos))


def container_record(id: str, sandbox: str = "gone", **infos: Any) -> RuntimeRecord:  # noqa: A002
    request = pb.ContainerResourceHookRequest(container_meta={"name": "main"}, **infos)
    return RuntimeRecord(RecordKind.CONTAINER, id, request, sandbox)
