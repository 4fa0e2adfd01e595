"""CPU burst: pods that run into their CPU limit get more, while the node has room.

By the NodeSLO's ``cpuBurstStrategy`` and a pod's annotation ``koordinator.sh/cpuBurst``,
which counts more. Not for LSE, LSR and BE pods, nor for what runs in a virtual machine.
Two things, each for itself or both (``policy``):

- ``cpu.cfs_burst_us``: what a container leaves of its quota it may use later;
- ``cpu.cfs_quota_us`` of a container that is throttled grows (``burst.quota_burst``),
  while the CPUs that pods share have room (``share_pool``) and its tokens last.

The quota without burst is what hooks want or what was found, so that a quota divided by
cpunormalization stays divided. A pod's quota grows by what those of its containers do. A
container without a quota has nothing to burst beyond. What is not measured moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_host.knobs.forms import NO_LIMIT
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.cpu_burst import MOST_QUOTA_PERCENT, MOST_QUOTA_SECONDS, BurstPolicy, CPUBurst
from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    StrategySignal,
    StrategyView,
    Term,
    desired_value,
)
from koordlet.qos_manager.strategies.cpu_burst.burst_pods import (
    BURST,
    BY_QUOTA,
    QUOTA,
    BurstPod,
    looked_at,
    may_burst,
)
from koordlet.qos_manager.strategies.cpu_burst.quota_burst import (
    BurstInputs,
    BurstQuota,
    burst_within,
    stepped,
)
from koordlet.qos_manager.strategies.cpu_burst.share_pool import (
    WINDOW,
    ReleasedCores,
    SharePool,
    shared_cpus,
)

GATE = "CPUBurst"
INTERVAL = "reconcile_interval_seconds"

_BURST = (BurstPolicy.AUTO, BurstPolicy.CPU_BURST)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of pods without an annotation, as ``koord_model.cpu_burst.CPUBurst`` has them."""

    policy: BurstPolicy = BurstPolicy.NONE
    """none, cpuBurstOnly, cfsQuotaBurstOnly, or auto for both."""
    burst_percent: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """CPU time that may be saved up, percent of the limit; the kernel takes the quota at most."""
    quota_percent: Annotated[int, Meta(ge=100, le=MOST_QUOTA_PERCENT)] = 300
    """Greatest quota, in percent of the one without burst."""
    quota_period_seconds: Annotated[int, Meta(ge=-1, le=MOST_QUOTA_SECONDS)] = -1
    """Time for which a quota may stay that high, -1: for ever."""
    share_pool_threshold: Annotated[int, Meta(ge=0, le=100)] = 50
    """Greatest load of the CPUs that pods share, in percent."""
    calm_seconds: Annotated[float, Meta(ge=0)] = 300.0
    """A raised quota that was not needed for so long comes down; 0: it stays."""

    @property
    def node(self) -> CPUBurst:
        """As the model has it."""
        return CPUBurst(
            self.policy,
            self.burst_percent,
            self.quota_percent,
            self.quota_period_seconds,
            self.share_pool_threshold,
        )


def settings(slo: NodeSLO) -> Settings:
    """The NodeSLO's ``cpuBurstStrategy``."""
    asked = slo.burst
    return Settings(
        asked.policy,
        asked.burst_percent,
        asked.quota_percent,
        asked.quota_period_seconds,
        asked.share_pool_threshold,
    )


class _PodPlan(NamedTuple):
    """The plan of a pod, valid as long as nothing of it changes.

    ``saving`` is how many of its containers may save up.
    """

    desired: tuple[DesiredValue, ...] = ()
    decisions: tuple[Decision, ...] = ()
    signals: tuple[StrategySignal, ...] = ()
    saving: int = 0


class _PodState(NamedTuple):
    """A pod and its plan."""

    pod: BurstPod
    plan: _PodPlan


class _Context(NamedTuple):
    """Context of every pod's state; ``saves`` is true if the kernel has the knob."""

    settings: Settings
    ratio: float
    saves: bool


class _Memory(NamedTuple):
    """Pods by UID, as they were in this context, and what was taken back lately."""

    context: _Context | None = None
    pods: Mapping[str, _PodState] = {}
    released: tuple[ReleasedCores, ...] = ()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan the CPU time that containers may save up, and the quotas above their base."""
    before = memory if isinstance(memory, _Memory) else _Memory()
    saves = BURST in view.node.kernel.knobs
    context = _Context(settings, view.node.cpu_normalization_ratio, saves)
    same = context == before.context
    pods = _pods(view, settings, before.pods, same)
    decisions: list[Decision] = []
    signals: list[StrategySignal] = []
    released: tuple[ReleasedCores, ...] = ()
    bursting = [pod for pod in pods.values() if pod.quotas and pod.asked.policy in BY_QUOTA]
    if bursting:
        pool, decision = shared_cpus(view, settings.share_pool_threshold)
        decisions.append(decision)
        signals += _pool_signals(pool)
        after, released = _stepped(bursting, view, pool, settings, before.released)
        pods |= {pod.of.uid: pod for pod in after}
    states = {
        uid: _pod_state(pod, before.pods.get(uid) if same else None, saves)
        for uid, pod in pods.items()
    }
    plans = [state.plan for state in states.values()]
    decisions += _of_saving(sum(each.saving for each in plans), pods.values(), saves)
    decisions += [decision for each in plans for decision in each.decisions]
    signals += [signal for each in plans for signal in each.signals]
    return Plan(
        tuple(desired for each in plans for desired in each.desired),
        tuple(decisions),
        signals=tuple(signals),
        memory=_Memory(context, states, released),
    )


def _pods(
    view: StrategyView, settings: Settings, before: Mapping[str, _PodState], same: bool
) -> dict[str, BurstPod]:
    """Every pod that may burst; unchanged pods are not checked again."""
    throttled = view.history.windows("container_cpu_throttled", WINDOW)
    found = {}
    for pod in view.pods:
        if may_burst(pod):
            kept = before.get(pod.uid)
            known = kept.pod if kept else None
            if known is None or known.of is not pod or not same or known.is_due(view, throttled):
                known = looked_at(view, pod, settings.node, known)
            found[pod.uid] = known
    return found


# ---- steps


def _stepped(
    pods: list[BurstPod],
    view: StrategyView,
    pool: SharePool,
    settings: Settings,
    released: tuple[ReleasedCores, ...],
) -> tuple[list[BurstPod], tuple[ReleasedCores, ...]]:
    """The pods after one round, and what was taken back lately."""
    quotas = [quota for pod in pods for quota in pod.quotas]
    used = any(quota.raised or quota.asked.quota_period_seconds >= 0 for quota in quotas)
    now = BurstInputs(
        view.steady,
        pool,
        pool.state,
        settings.calm_seconds,
        view.history.windows("container_cpu_usage", WINDOW) if used else {},
        view.history.windows("container_cpu_throttled", WINDOW),
    )
    after, released = stepped(quotas, now, released)
    if all(quota is other for quota, other in zip(after, quotas, strict=True)):
        return pods, released
    rest = iter(after)
    return [pod._replace(quotas=tuple(next(rest) for _ in pod.quotas)) for pod in pods], released


def _pool_signals(pool: SharePool) -> list[StrategySignal]:
    if pool.used is None:
        return []
    return [
        StrategySignal("share_pool_used_cores", pool.used),
        StrategySignal("share_pool_cores", pool.total),
    ]


# ---- the plan of a pod


def _pod_state(pod: BurstPod, before: _PodState | None, saves: bool) -> _PodState:
    """The pod with its plan: the previous one as long as nothing that it depends on has changed."""
    if before is None:
        return _PodState(pod, _pod_plan(pod, saves))
    if before.pod is pod:
        return before
    same = _essence(pod) == _essence(before.pod)
    return _PodState(pod, before.plan if same else _pod_plan(pod, saves))


def _essence(pod: BurstPod) -> tuple[object, ...]:
    quotas = [
        (quota.of.group, quota.limit, quota.base, quota.period, quota.quota) for quota in pod.quotas
    ]
    return pod.asked, pod.notes, pod.base, pod.period, quotas


def _pod_plan(pod: BurstPod, saves: bool) -> _PodPlan:
    raised = [quota for quota in pod.quotas if quota.raised]
    desired, decisions, signals = [], list(pod.notes), []
    room = pod.base
    for quota in raised:
        decision = _decision(pod, quota)
        decisions.append(decision)
        desired.append(desired_value(quota.of.group, QUOTA, quota.quota, decision))
        # Rounded up: the kernel lets no group have more than the one above it.
        room -= (quota.base - quota.quota) * pod.period // quota.period
        signals.append(_signal("container_scaled_cfs_quota_us", pod, quota, quota.quota))
    if raised and pod.base != NO_LIMIT:
        desired.append(DesiredValue(Target(pod.of.group, QUOTA), room, _ROOM, pod.of.name))
    if not saves or pod.asked.policy not in _BURST or not pod.quotas:
        return _PodPlan(tuple(desired), tuple(decisions), tuple(signals))
    desired += [
        DesiredValue(Target(quota.of.group, BURST), quota.saved, _SAVES, pod.of.name)
        for quota in pod.quotas
    ]
    if pod.base != NO_LIMIT:
        together = sum(quota.saved * pod.period // quota.period for quota in pod.quotas)
        burst = burst_within(together, pod.base)
        desired.append(DesiredValue(Target(pod.of.group, BURST), burst, _SAVES, pod.of.name))
    signals += [
        _signal("container_scaled_cfs_burst_us", pod, quota, quota.saved) for quota in pod.quotas
    ]
    return _PodPlan(tuple(desired), tuple(decisions), tuple(signals), len(pod.quotas))


def _signal(name: str, pod: BurstPod, burst_quota: BurstQuota, value: int) -> StrategySignal:
    return StrategySignal(f"{name}/{burst_quota.of.container.name}", value, pod.of.name)


_ROOM = "room for the raised quotas of its containers"
_SAVES = "what is left of the quota may be used later"


def _decision(pod: BurstPod, burst_quota: BurstQuota) -> Decision:
    return Decision(
        f'container "{burst_quota.of.container.name}" may use more CPU than its limit',
        "base ≤ quota ≤ ceiling",
        (
            Term("quota", burst_quota.quota / burst_quota.period, "cores"),
            Term("base", burst_quota.base / burst_quota.period, "cores"),
            Term("ceiling", burst_quota.most / burst_quota.period, "cores"),
            Term("cause", burst_quota.cause),
        ),
        pod=pod.of.name,
        group=burst_quota.of.group,
    )


def _of_saving(count: int, pods: Iterable[BurstPod], saves: bool) -> list[Decision]:
    """One line for the node about ``cpu.cfs_burst_us``."""
    if count:
        outcome = "containers may use later what they leave of their quota"
        return [Decision(outcome, given=(Term("containers", count),), aspect="burst")]
    if not saves and any(pod.asked.policy in _BURST for pod in pods):
        outcome = "nothing of a quota is kept for later: the kernel has no cpu.cfs_burst_us"
        return [Decision(outcome, aspect="burst")]
    return []
