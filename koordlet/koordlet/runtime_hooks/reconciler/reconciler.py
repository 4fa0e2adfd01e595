"""Keeps the node as the plugins want it: asks them, and has the executor write.

Everything here runs in one thread, the writer's, but for jobs: nobody else touches the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from koord_hooks.runner import HookRunner
from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.forms import NO_LIMIT
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.outcomes import Round
from koord_host.resource_executor.executor import Executor
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koord_model.traffic import Traffic

from koordlet.runtime_hooks.reconciler.desired_state import (
    DesiredState,
    compute_host_applications,
    compute_kube_qos,
    compute_pod,
    pod_scope,
)
from koordlet.runtime_hooks.reconciler.listed_limits import listed_limits
from koordlet.runtime_hooks.reconciler.runtime_weights import WeightLearner
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

HOOKS = Owner("hooks", Priority.HOOKS)

Subject = TypeVar("Subject", Pod, Container)

ShapeTraffic = Callable[[Traffic | None, str], None]
"""Has the node's traffic shaped so, with the reason; nothing of ours for ``None``."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a round; ``problems`` are lines about tasks that could not be reconciled.

    ``defects`` are lines about pods over which it stumbled. ``seconds`` is how long it took,
    ``pods`` how many there are. ``plans`` are seconds from each of strategies' plans, handed
    over since the last round, to its writes.
    """

    writes: Round
    problems: tuple[str, ...] = ()
    pods: int = 0
    seconds: float = 0.0
    defects: tuple[str, ...] = ()
    plans: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedPlans:
    """Plans applied ahead of a round; ``seconds`` are from each plan's handover to its writes."""

    rounds: tuple[Round, ...] = ()
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _CachedInputs:
    """The inputs of a pod's desired values."""

    record: PodRecord
    view: NodeView


class NodeReconciler:
    """Levels pods, containers, sandboxes, class cgroups, host applications and the node.

    A pod is asked about again only when it, or the view of the node, has changed.
    """

    def __init__(
        self,
        runner: HookRunner,
        layout: Layout,
        reader: FileReader,
        executor: Executor,
        tasks: TaskReconciler,
        on_desired: Callable[[DesiredState], None],
        shape: ShapeTraffic | None = None,
    ) -> None:
        self._runner = runner
        self._layout = layout
        self._reader = reader
        self._executor = executor
        self._tasks = tasks
        self._on_desired = on_desired
        self._shape = shape
        self._learner = WeightLearner(layout, reader, executor.is_untouched)
        self._classes: frozenset[str] = frozenset()
        if layout.driver is Driver.SYSTEMD:
            self._classes = frozenset(map(layout.kube_qos_group, KubeQoS))
        self._cached: dict[str, _CachedInputs] = {}
        self._node_inputs: tuple[tuple[Pod, ...], NodeView] | None = None
        self._traffic: tuple[Traffic | None, str] = (None, "")
        self._view: NodeView | None = None

    def reconcile_all(
        self,
        records: Iterable[PodRecord],
        view: NodeView,
        *,
        complete: bool = True,
        touched: Iterable[str] = (),
        between: Callable[[], None] = lambda: None,
    ) -> ReconcileResult:
        """Reconcile everything; pods that are not among the records are forgotten.

        ``complete``: these are all the pods there are, not just those known so far.
        ``touched`` are UIDs of pods whose groups the runtime has set anew. ``between`` is
        called between two pods, and between two parts of their writes, for what cannot wait.
        """
        records = tuple(records)
        for scope in self._cached.keys() - {pod_scope(record.pod.uid) for record in records}:
            self._forget(scope)
        touched = frozenset(touched)
        changed, defects = set(map(pod_scope, touched)), []
        set_anew: set[str] = set()
        for record in records:
            between()
            if record.pod.uid in touched or self._is_news(record):
                set_anew.add(self._layout.group_of_parent(record.pod.cgroup_parent))
            try:
                if self._freshen(record, view):
                    changed.add(pod_scope(record.pod.uid))
            except Exception as error:
                # A defect: of this pod, and no others are to suffer for it.
                defects.append(f"{record.pod.full_name}: {type(error).__name__}: {error}")
        for scope in changed:
            self._executor.reread(HOOKS, scope)
        self._look_again(set_anew)
        if view is not self._view:
            self._view = view
            self._hold(compute_kube_qos(self._runner, view, self._layout))
            self._hold(compute_host_applications(self._runner, view, self._layout))
            self._tasks.share(view.slo)
        if self._learner.examine(records):
            # Theirs was written, or left, by another formula.
            self._executor.reread_at(self._layout.is_container)
        self._reconcile_node(tuple(record.pod for record in records), view)
        due = self._tasks.set_desired(self._executor, complete=complete)
        writes = self._executor.apply(between)
        problems = self._tasks.reconcile(due=due)
        if self._shape is not None:
            self._shape(*self._traffic)
        return ReconcileResult(writes, problems, len(records), defects=tuple(defects))

    def _look_again(self, pods: Collection[str]) -> None:
        """Have files read again that the runtime has set, whoever owns them: of pods and below.

        With systemd also the groups above, each time: whoever sets one thing of a slice has
        systemd set all that it knows of it. The kubelet sets the shares of a class once a
        minute, and a quota or protection of memory that is ours is gone.
        """
        classes = self._classes

        def concerned(place: str) -> bool:
            return place in classes or place in pods or place.rpartition("/")[0] in pods

        if pods:
            self._executor.reread_at(concerned)
        elif classes:
            self._executor.reread_at(classes.__contains__)

    def _is_news(self, record: PodRecord) -> bool:
        cached = self._cached.get(pod_scope(record.pod.uid))
        return cached is None or cached.record is not record

    def _freshen(self, record: PodRecord, view: NodeView) -> bool:
        """Run plugins again for a pod if it or the view has changed; return True if so."""
        scope = pod_scope(record.pod.uid)
        cached = self._cached.get(scope)
        if cached is not None and cached.record is record and cached.view is view:
            return False
        self._executor.set_listed(scope, listed_limits(record, self._layout))
        limited, sandboxes = self._limited(record), self._sandboxes(record)
        desired = compute_pod(limited, sandboxes, self._runner, view, self._layout)
        self._hold(desired)
        self._cached[scope] = _CachedInputs(record, view)
        return True

    def _hold(self, desired: DesiredState) -> None:
        self._executor.set_desired(HOOKS, desired.scope, desired.values)
        self._tasks.hold(desired)
        self._on_desired(desired)

    def _forget(self, scope: str) -> None:
        self._cached.pop(scope, None)
        self._executor.forget(HOOKS, scope)
        self._executor.set_listed(scope, {})
        self._tasks.forget(scope)

    def _reconcile_node(self, pods: tuple[Pod, ...], view: NodeView) -> None:
        if self._node_inputs == (pods, view):
            return
        self._node_inputs = (pods, view)
        outcome = self._runner.reconcile_node(pods, view)
        patch = outcome.patch
        values = [
            *(
                DesiredValue(Target(name, "sysctl"), text, patch.why)
                for name, text in patch.sysctls.items()
            ),
            *(
                DesiredValue(Target(path, "file"), text, patch.why)
                for path, text in patch.files.items()
            ),
        ]
        self._executor.set_desired(HOOKS, "node", tuple(values))
        self._traffic = (patch.traffic, patch.why)
        self._on_desired(DesiredState("node", outcomes_to_log=(({"subject": "node"}, outcome),)))

    def _limited(self, record: PodRecord) -> PodRecord:
        """The record without quotas that its groups do not have.

        What is asked for is not always given: a pod is not limited of which one container
        is not, nor a container to which the kubelet gave CPUs.
        """
        pod = self._as_given(record.pod, self._layout.group_of_parent(record.pod.cgroup_parent))
        containers = {
            ident: self._as_given(container, container_group(record, container, self._layout))
            for ident, container in record.containers.items()
        }
        return replace(record, pod=pod, containers=containers)

    def _as_given(self, subject: Subject, group: str) -> Subject:
        if subject.resources.cpu_quota is None or self._has_quota(group):
            return subject
        return replace(subject, resources=replace(subject.resources, cpu_quota=None))

    def _has_quota(self, group: str) -> bool:
        knob = KNOBS["cpu.cfs_quota_us"]
        try:
            text = self._reader.read(self._layout.path(knob, group))
            return self._layout.form(knob, group).decode(text) != NO_LIMIT
        except (OSError, ValueError):
            return False

    def _sandboxes(self, record: PodRecord) -> tuple[str, ...]:
        """The groups below the pod's that are none of its containers known."""
        group = self._layout.group_of_parent(record.pod.cgroup_parent)
        path = self._layout.group_path(group, "cpu")
        known = tuple(record.containers)
        try:
            names = self._reader.entries(path)
        except OSError:
            return ()
        return tuple(name for name in names if not any(other in name for other in known))
