"""Kubelets, many at once: pods come and go through the proxy, and each is looked at.

Whether a container was hooked is asked of the runtime itself, past the proxy.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar

import grpc

from tests.chaos.node import Node
from tests.chaos.tally import Fate, Result, Tally, result_of
from tests.support.cri import Cri, PodPlan, batch_pod_config, pb
from tests.support.processes import PATIENCE

T = TypeVar("T")

HOOKED_SHARES = 512
"""Of a batch pod of half a core; without hooks it has 2."""
BEHIND = 0.1
"""The part of pods that are made past the proxy, and started through it."""
PAUSE = 0.05
"""Seconds that a kubelet waits before it tries again."""


class Worker(threading.Thread):
    """One kubelet, one pod at a time, until asked to stop; then it removes what it made."""

    def __init__(self, node: Node, tally: Tally, seed: str, done: threading.Event) -> None:
        super().__init__(name=f"kubelet-{seed}")
        self._node = node
        self._tally = tally
        self._chance = random.Random(seed)
        self._done = done
        self._cri = Cri(node.proxy.address)
        self._direct = Cri(node.runtime.address)
        self._sandboxes: set[str] = set()
        self._containers: set[str] = set()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._cri, self._direct:
                while not self._done.is_set():
                    self._live()
        except BaseException as error:
            self.failure = error
            raise

    def clean_up(self, cri: Cri) -> None:
        """Remove what is left of the pods, as a kubelet does until it is gone."""
        self._cri = cri
        for container in sorted(self._containers):
            self._until_done(lambda one=container: self._remove_container(one))
        for sandbox in sorted(self._sandboxes):
            self._until_done(lambda one=sandbox: self._remove_sandbox(one))

    # ---- a pod's life

    def _live(self) -> None:
        plan = batch_pod_config(cgroup_root=self._node.runtime.cgroup_root)
        behind = self._chance.random() < BEHIND
        made = self._make_behind(plan) if behind else self._make(plan)
        if made is None:
            self._done.wait(PAUSE)
            return
        sandbox, container = made
        if self._call("StartContainer", lambda: self._cri.start_container(container)) is None:
            self._remove(sandbox, container)
            return
        self._judge(container, behind=behind)
        linux = pb.LinuxContainerResources(cpu_shares=2)
        for _ in range(self._chance.randrange(3)):
            self._call(
                "UpdateContainerResources",
                lambda: self._cri.update_container_resources(container, linux),
            )
        self._call("ListContainers", self._cri.list_containers)
        self._remove(sandbox, container)

    def _make(self, plan: PodPlan) -> tuple[str, str] | None:
        sandbox = self._call("RunPodSandbox", lambda: self._cri.run_pod_sandbox(plan.sandbox))
        if sandbox is None:
            return None
        self._sandboxes.add(sandbox)
        container = self._call(
            "CreateContainer",
            lambda: self._cri.create_container(sandbox, plan.container, plan.sandbox),
        )
        if container is None:
            self._remove(sandbox)
            return None
        self._containers.add(container)
        return sandbox, container

    def _make_behind(self, plan: PodPlan) -> tuple[str, str] | None:
        """Made past the proxy, as before it was put here: nobody was asked about it."""
        try:
            sandbox = self._direct.run_pod_sandbox(plan.sandbox, timeout=PATIENCE)
            self._sandboxes.add(sandbox)
            made = self._direct.create_container(
                sandbox, plan.container, plan.sandbox, timeout=PATIENCE
            )
        except grpc.RpcError:
            return None
        self._containers.add(made)
        return sandbox, made

    def _remove(self, sandbox: str, container: str = "") -> None:
        """One attempt; what fails is done in the end."""
        if container and self._remove_container(container):
            self._containers.discard(container)
        if self._remove_sandbox(sandbox):
            self._sandboxes.discard(sandbox)

    def _remove_container(self, container: str) -> bool:
        stop, remove = self._cri.stop_container, self._cri.remove_container
        return self._gone("StopContainer", lambda: stop(container)) and self._gone(
            "RemoveContainer", lambda: remove(container)
        )

    def _remove_sandbox(self, sandbox: str) -> bool:
        stop, remove = self._cri.stop_pod_sandbox, self._cri.remove_pod_sandbox
        return self._gone("StopPodSandbox", lambda: stop(sandbox)) and self._gone(
            "RemovePodSandbox", lambda: remove(sandbox)
        )

    def _until_done(self, attempt: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not attempt():
            assert time.monotonic() < end, "cannot be removed"
            time.sleep(PAUSE)

    # ---- calls

    def _call(self, method: str, call: Callable[[], T]) -> T | bool | None:
        """What a call returned, True for nothing; ``None`` if it failed."""
        try:
            answer = call()
        except grpc.RpcError as error:
            self._tally.called(method, result_of(error), f"{error.code()}: {error.details()}")
            return None
        self._tally.called(method, Result.ANSWERED)
        return True if answer is None else answer

    def _gone(self, method: str, call: Callable[[], Any]) -> bool:
        """Whether it is gone now, by this call or before it."""
        try:
            call()
        except grpc.RpcError as error:
            result = result_of(error)
            self._tally.called(method, result, f"{error.code()}: {error.details()}")
            return result is Result.GONE
        self._tally.called(method, Result.ANSWERED)
        return True

    # ---- whether it was hooked

    def _judge(self, container: str, *, behind: bool) -> None:
        """Look at a container that was just started: under Fail none is without its hooks.

        One made past the proxy is: it must be named as soon as its records were compared with
        the runtime, and be repaired.
        """
        if not behind:
            fate = self._is_hooked(container) or Fate.UNHOOKED
            self._tally.started(fate, container)
            return
        fate = self._in_time(lambda: self._is_hooked(container) or self._is_named(container))
        if fate is Fate.REPAIRED:
            fate = self._in_time(lambda: self._is_hooked(container))
        repaired = Fate.REPAIRED if fate is Fate.HOOKED else fate
        self._tally.started(repaired or Fate.UNHOOKED, f"{container}, made past the proxy")

    def _is_hooked(self, container: str) -> Fate | None:
        """What the runtime says."""

        def ask() -> Fate | None:
            try:
                status = self._direct.container_status(container, verbose=True, timeout=PATIENCE)
            except grpc.RpcError as error:
                if result_of(error) is Result.GONE:
                    return Fate.GONE
                raise
            spec = json.loads(status.info["info"])["runtimeSpec"]["linux"]["resources"]
            return Fate.HOOKED if spec["cpu"]["shares"] == HOOKED_SHARES else None

        return self._asked(ask)

    def _is_named(self, container: str) -> Fate | None:
        """What the proxy says: that it is one to repair."""

        def ask() -> Fate | None:
            known = self._node.proxy.containers().get(container)
            return Fate.REPAIRED if known is not None and not known["managed"] else None

        return self._asked(ask)

    @staticmethod
    def _in_time(look: Callable[[], Fate | None]) -> Fate | None:
        end = time.monotonic() + PATIENCE
        while True:
            found = look()
            if found is not None or time.monotonic() > end:
                return found
            time.sleep(PAUSE)

    @staticmethod
    def _asked(ask: Callable[[], T]) -> T:
        """What is said once there is somebody to say it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except (grpc.RpcError, HTTPException, OSError, ValueError):
                assert time.monotonic() < end, "nobody answers"
                time.sleep(PAUSE)
