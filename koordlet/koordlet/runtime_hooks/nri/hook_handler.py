"""The plugins as an NRI handler: a runtime with NRI asks koordlet without any proxy.

Pod-level values, and what no NRI adjustment carries, are written by the reconciler,
which gets every pod and container from here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Protocol

from koord_hooks.runner import HookResult, HookRunner
from koord_hooks.stages import Stage
from koord_model.patch import Patch, field_name
from koord_model.pod import Container, Pod
from koord_model.resources import SCALARS, LinuxResources
from koord_proto import nri_pb2 as pb
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.runtime_hooks.answered_requests import AnsweredRequests
from koordlet.runtime_hooks.hook_answers import HookAnswers, Transport
from koordlet.runtime_hooks.hook_log import log_answer, subject_fields
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.hook_server import HookNode, PreparePod
from koordlet.runtime_hooks.node_traces import NodeTraces
from koordlet.runtime_hooks.nri.protocol import adjustments
from koordlet.runtime_hooks.nri.protocol.convert import to_container, to_pod, to_resources
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler, RefusedCallError

_log = get_log("koordlet.nri")


class SynchronizedNode(HookNode, Protocol):
    """A node that takes a complete list of what runs."""

    def synchronize(self, pods: Iterable[Pod], running: Iterable[Container]) -> None:
        """These pods are there, these containers run, and none besides."""
        ...

    def has_cache_group(self, group: str) -> bool:
        """True if a resctrl group has been made, so that containers may start in it."""
        ...


class HookHandler(NriHandler):
    """Answers NRI with the plugins' patches, and informs the reconcile loop of what runs."""

    def __init__(
        self,
        runner: HookRunner,
        node: SynchronizedNode,
        metrics: HookMetrics,
        deduplicator: LogDeduplicator,
        disabled: Collection[Stage] = (),
        answers: HookAnswers | None = None,
        answered: AnsweredRequests | None = None,
        prepare: PreparePod | None = None,
        traces: NodeTraces | None = None,
    ) -> None:
        """``answered`` is what a proxy was answered before, and then this runtime.

        ``prepare`` is waited for while a pod starts.
        """
        self._runner = runner
        self._node = node
        self._metrics = metrics
        self._deduplicator = deduplicator
        self._disabled = frozenset(disabled)
        self._answers = answers or HookAnswers()
        self._answered = answered or AnsweredRequests()
        self._prepare = prepare
        self._traces = traces

    def synchronize(self, request: pb.SynchronizeRequest) -> None:
        """Reconcile all that runs, also what started while the plugin was disconnected."""
        sandboxes = {sandbox.id: sandbox for sandbox in request.pods}
        running = [
            self._recalled(to_container(sandboxes[container.pod_sandbox_id], container))
            for container in request.containers
            if container.state == pb.CONTAINER_RUNNING and container.pod_sandbox_id in sandboxes
        ]
        self._node.synchronize([to_pod(sandbox) for sandbox in request.pods], running)

    def run_pod_sandbox(self, request: pb.RunPodSandboxRequest) -> Awaitable[None] | None:
        pod = to_pod(request.pod)
        self._node.saw(Stage.PRE_RUN_POD_SANDBOX, pod)
        return None if self._prepare is None else self._prepared(pod, self._prepare)

    async def _prepared(self, pod: Pod, prepare: PreparePod) -> None:
        if refusal := await prepare(pod):
            raise RefusedCallError(refusal)

    def post_update_pod_sandbox(self, request: pb.PostUpdatePodSandboxRequest) -> None:
        """A pod was resized in place: what it has now is looked at."""
        self._node.saw(Stage.PRE_RUN_POD_SANDBOX, to_pod(request.pod))

    def stop_pod_sandbox(self, request: pb.StopPodSandboxRequest) -> None:
        self._node.saw(Stage.POST_STOP_POD_SANDBOX, to_pod(request.pod))

    def remove_pod_sandbox(self, request: pb.RemovePodSandboxRequest) -> None:
        self._node.saw(Stage.PRE_REMOVE_POD_SANDBOX, to_pod(request.pod))

    def create_container(
        self, request: pb.CreateContainerRequest
    ) -> pb.CreateContainerResponse | None:
        container = self._recalled(to_container(request.pod, request.container))
        outcome = self._ask(Stage.PRE_CREATE_CONTAINER, container)
        left_out: list[str] = []
        adjust = self._adjustment(container, outcome.patch, left_out)
        self._keep(Stage.PRE_CREATE_CONTAINER, container, outcome, left_out)
        return pb.CreateContainerResponse(adjust=adjust) if adjust.ByteSize() else None

    def post_start_container(self, request: pb.PostStartContainerRequest) -> None:
        container = self._recalled(to_container(request.pod, request.container))
        self._node.saw(Stage.POST_START_CONTAINER, container)

    def update_container(
        self, request: pb.UpdateContainerRequest
    ) -> pb.UpdateContainerResponse | None:
        container = to_container(request.pod, request.container)
        # What is about to be set is what the plugins have to judge.
        desired = to_resources(request.linux_resources)
        asked = self._recalled(replace(container, resources=desired))
        after = replace(asked, resources=overlaid(container.resources, desired))
        self._node.saw(Stage.PRE_UPDATE_CONTAINER_RESOURCES, after)
        outcome = self._ask(Stage.PRE_UPDATE_CONTAINER_RESOURCES, asked)
        self._keep(Stage.PRE_UPDATE_CONTAINER_RESOURCES, asked, outcome)
        wanted = adjustments.from_model(changes(asked.resources, outcome.patch.resources))
        if not wanted.ByteSize():
            return None
        return pb.UpdateContainerResponse(update=[adjustments.update(container.id, wanted)])

    def stop_container(self, request: pb.StopContainerRequest) -> None:
        self._node.saw(Stage.POST_STOP_CONTAINER, to_container(request.pod, request.container))

    def _recalled(self, container: Container) -> Container:
        """The container with what is known of its limits, if a proxy has passed them on."""
        known = self._node.current(container).annotations
        return self._answered.recall(replace(container, annotations=known))

    def _ask(self, stage: Stage, container: Container) -> HookResult[Patch]:
        if stage in self._disabled:
            return HookResult(Patch())
        started = perf_counter()
        outcome = self._runner.run(stage, self._node.current(container), self._node.view)
        # A runtime shows an update's limits from then on, and annotations only from creations.
        self._answered.keep(container, outcome.patch)
        seconds = perf_counter() - started
        self._metrics.count(stage, outcome, seconds)
        if self._traces is not None:
            self._traces.hooked(stage, self._node.current(container), seconds)
        changed = bool(outcome.patch.why)
        log_answer(_log, self._deduplicator, stage, container, outcome, changed=changed)
        return outcome

    def _keep(
        self,
        stage: Stage,
        container: Container,
        outcome: HookResult[Patch],
        left_out: Collection[str] = (),
    ) -> None:
        if stage not in self._disabled:
            self._answers.keep(Transport.NRI, stage, container, outcome, left_out)

    def _adjustment(
        self, container: Container, patch: Patch, left_out: list[str]
    ) -> pb.ContainerAdjustment:
        """The answer; ``left_out`` is called for fields that it cannot hold."""
        limits = adjustments.from_model(changes(container.resources, patch.resources))
        if patch.resctrl is not None:
            if self._node.has_cache_group(patch.resctrl.group):
                limits.rdt_class.value = patch.resctrl.group
            else:
                left_out.append(field_name("resctrl", ""))
        return adjustments.adjustment(
            resources=limits if limits.ByteSize() else None,
            oom_score_adj=patch.resources.oom_score_adj,
            env=patch.env,
            annotations=patch.annotations,
            mounts=list(self._mounts(container, patch, left_out)),
            devices=list(self._devices(container, patch, left_out)),
        )

    def _mounts(
        self, container: Container, patch: Patch, left_out: list[str]
    ) -> Iterator[pb.Mount]:
        """Those the host has: with any other the container would not start."""
        for path, wanted in patch.mounts.items():
            try:
                Path(wanted.host_path).stat()
            except OSError as error:
                reason = f"{wanted.host_path}: {error.strerror}"
                _log.warning("mount ignored", **subject_fields(container), reason=reason)
                left_out.append(field_name("mounts", path))
                continue
            yield adjustments.mount(path, wanted.host_path, options=wanted.options)

    def _devices(
        self, container: Container, patch: Patch, left_out: list[str]
    ) -> Iterator[pb.LinuxDevice]:
        for path, wanted in patch.devices.items():
            try:
                found = Path(wanted.host_path).stat()
            except OSError as error:
                reason = f"{wanted.host_path}: {error.strerror}"
                _log.warning("device ignored", **subject_fields(container), reason=reason)
                left_out.append(field_name("devices", path))
                continue
            yield adjustments.device(
                path,
                os.major(found.st_rdev),
                os.minor(found.st_rdev),
                type="b" if stat.S_ISBLK(found.st_mode) else "c",
                mode=wanted.mode,
            )


def overlaid(present: LinuxResources, wanted: LinuxResources) -> LinuxResources:
    """The limits with those of ``wanted`` that are set."""
    known = {name: getattr(wanted, name) for name in SCALARS}
    return replace(
        present,
        **{name: value for name, value in known.items() if value is not None},
        hugepage_limits={**present.hugepage_limits, **wanted.hugepage_limits},
        unified={**present.unified, **wanted.unified},
    )


def changes(present: LinuxResources, wanted: LinuxResources) -> LinuxResources:
    """The part of ``wanted`` that differs: a proxy may have applied it already."""
    known = {name: getattr(wanted, name) for name in SCALARS}
    return LinuxResources(
        **{name: value for name, value in known.items() if value != getattr(present, name)},
        hugepage_limits=dict(wanted.hugepage_limits.items() - present.hugepage_limits.items()),
        unified=dict(wanted.unified.items() - present.unified.items()),
    )
