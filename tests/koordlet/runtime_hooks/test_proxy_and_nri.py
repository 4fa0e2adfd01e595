"""With a proxy and NRI both on a request comes twice, and what plugins compute is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_hooks.builtin import cpunormalization
from koord_hooks.runner import HookRunner
from koord_hooks.stages import Stage
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_proto import nri_pb2 as pb
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.runtime_hooks.answered_requests import AnsweredRequests
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.nri.hook_handler import HookHandler
from koordlet.states_informer.state.pod_inventory import PodInventory

VIEW = NodeView(cpu_normalization_ratio=2.0)
PLUGINS = HookRunner([("cpunormalization", cpunormalization)])
SANDBOX = pb.PodSandbox(id="s1", name="web", namespace="shop", uid="u1")
SANDBOX.linux.cgroup_parent = "/kubepods/podu1"


class Node:
    """An inventory without a list of pods."""

    view = VIEW

    def __init__(self, inventory: PodInventory) -> None:
        self.inventory = inventory

    def current(self, container: Container) -> Container:
        return self.inventory.current(container)

    def saw(self, stage: Stage, subject: Pod | Container) -> None:
        if isinstance(subject, Container):
            self.inventory.saw_container(subject, 1.0)

    def synchronize(self, pods: Any, running: Any) -> None:
        for one in running:
            self.inventory.saw_container(one, 2.0)

    def has_cache_group(self, group: str) -> bool:
        return False


class Both:
    """A koordlet that a proxy asks first, and then the runtime."""

    def __init__(self) -> None:
        self.inventory, self.asked = PodInventory(), AnsweredRequests()
        self.annotations: dict[str, str] = {}
        self.quota = 0
        self._open()

    def _open(self) -> None:
        self.nri = HookHandler(
            PLUGINS,
            Node(self.inventory),
            HookMetrics(),
            LogDeduplicator(),
            answered=self.asked,
        )

    def restart(self) -> None:
        records = self.inventory.records()
        self.inventory, self.asked = PodInventory(), AnsweredRequests()
        self.inventory.recall(records, 0.0)
        self._open()

    def by_proxy(self, stage: Stage, quota: int) -> None:
        """The kubelet's request; what the proxy passes on is the runtime's ``quota``."""
        pod = Pod("web", "shop", "u1")
        container = Container(pod, "main", resources=LinuxResources(cpu_quota=quota))
        patch = PLUGINS.run(stage, container, VIEW).patch
        self.asked.keep(container, patch)
        assert patch.resources.cpu_quota is not None
        self.quota = patch.resources.cpu_quota

    def shown(self) -> pb.Container:
        """The container as the runtime shows it: without annotations that the proxy wrote."""
        made = pb.Container(id="c1", pod_sandbox_id="s1", name="main", state=pb.CONTAINER_RUNNING)
        made.annotations.update(self.annotations)
        made.linux.resources.cpu.quota.value = self.quota
        return made

    def create(self, quota: int) -> None:
        self.by_proxy(Stage.PRE_CREATE_CONTAINER, quota)
        answer = self.nri.create_container(
            pb.CreateContainerRequest(pod=SANDBOX, container=self.shown())
        )
        if answer is not None:
            self.annotations.update(answer.adjust.annotations)
            found = answer.adjust.linux.resources.cpu
            self.quota = found.quota.value if found.HasField("quota") else self.quota
        self.nri.post_start_container(
            pb.PostStartContainerRequest(pod=SANDBOX, container=self.shown())
        )

    def update(self, quota: int) -> None:
        before = self.shown()
        self.by_proxy(Stage.PRE_UPDATE_CONTAINER_RESOURCES, quota)
        request = pb.UpdateContainerRequest(pod=SANDBOX, container=before)
        request.linux_resources.cpu.quota.value = self.quota
        answer = self.nri.update_container(request)
        for one in answer.update if answer is not None else ():
            self.quota = one.linux.resources.cpu.quota.value

    def reconciled(self) -> int | None:
        """What the reconciler gives the container, from what is known of it."""
        [record] = self.inventory.records()
        [container] = record.containers.values()
        found = PLUGINS.run(Stage.PRE_UPDATE_CONTAINER_RESOURCES, container, VIEW)
        return found.patch.resources.cpu_quota


def test_a_quota_is_divided_once() -> None:
    both = Both()
    both.create(100_000)
    assert (both.quota, both.reconciled()) == (50_000, 50_000)
    both.update(200_000)
    assert (both.quota, both.reconciled()) == (100_000, 100_000)


@pytest.mark.parametrize("resized", [False, True])
def test_nor_is_it_divided_again_after_a_restart(resized: bool) -> None:
    both = Both()
    both.create(100_000)
    if resized:
        both.update(200_000)
    both.restart()
    request = pb.SynchronizeRequest(pods=[SANDBOX], containers=[both.shown()])
    both.nri.synchronize(request)
    assert both.reconciled() == both.quota == (100_000 if resized else 50_000)


def test_a_runtime_that_is_connected_again_shows_no_new_request() -> None:
    both = Both()
    both.create(100_000)
    request = pb.UpdateContainerRequest(pod=SANDBOX, container=both.shown())
    request.linux_resources.cpu.quota.value = 200_000
    [update] = both.nri.update_container(request).update
    both.quota = update.linux.resources.cpu.quota.value
    both.nri.synchronize(pb.SynchronizeRequest(pods=[SANDBOX], containers=[both.shown()]))
    assert both.reconciled() == both.quota == 100_000


def test_a_request_that_went_past_the_proxy_is_a_new_one() -> None:
    both = Both()
    both.create(100_000)
    before = both.shown()
    request = pb.UpdateContainerRequest(pod=SANDBOX, container=before)
    request.linux_resources.cpu.quota.value = 300_000
    answer = both.nri.update_container(request)
    assert answer is not None
    assert answer.update[0].linux.resources.cpu.quota.value == 150_000
    assert both.reconciled() == 150_000


def test_answers_of_containers_that_nobody_asks_about_are_forgotten() -> None:
    answered = AnsweredRequests()
    container = Container(
        Pod("web", "shop", "u1"), "main", resources=LinuxResources(cpu_quota=2000)
    )
    patch = PLUGINS.run(Stage.PRE_CREATE_CONTAINER, container, VIEW).patch
    made = replace(container, resources=patch.resources)
    answered.keep(container, patch)
    assert answered.recall(made) != made
    for number in range(4096):
        answered.keep(replace(container, name=f"c{number}"), patch)
    assert answered.recall(made) == made
