"""Best-effort pods get the CPU that the other pods leave of a threshold, and no more.

How much that is ``suppression.be_amount`` says, and which CPUs ``suppression.be_cpus``. Less is
less at once, beyond a small dead band: load that trembles would move tasks for a part of a CPU.
More comes only when it has been so for some seconds, and then step by step.

Policy cpuset: the cgroup of best-effort pods and all below it get so many CPUs. Where the
kubelet gives CPUs away itself (static policy), it writes the cpusets of new containers and fails
if the groups above have fewer CPUs: there only containers are held down.
Policy cfsQuota: that cgroup gets a quota, and CPUs only so far as some are not for sharing.

Not enabled, they only keep off CPUs that strategies claim, as far as there are claims.

While something is not known, nothing is widened or narrowed: the desired values stay,
except CPUs that an LSE pod has got meanwhile. Groups that appear without a pod being known
are looked for every few seconds: they begin with the CPUs of the group above.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

from koord_host.knobs.forms import NO_LIMIT, Value
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model import cpuset
from koord_model.node import Topology
from koord_model.node_info import Processor
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS
from koord_model.used_threshold import SuppressPolicy
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    PodView,
    StrategySignal,
    StrategyView,
    Term,
)
from koordlet.qos_manager.strategies.cpu_suppress import be_quota, suppression_formula
from koordlet.qos_manager.strategies.cpu_suppress.suppression_formula import (
    NodeCPULoad,
    Spell,
    SuppressionAmount,
    SuppressionLimits,
)
from koordlet.qos_manager.suppression import be_cpus, be_groups
from koordlet.qos_manager.suppression.be_advice import least_advice
from koordlet.qos_manager.suppression.be_cpus import CPUPools
from koordlet.qos_manager.suppression.be_groups import CPUSET, PERIOD, QUOTA
from koordlet.states_informer.state.share_pools import ReservedCPUs

GATE = "BECPUSuppress"
INTERVAL = "cpu_suppress_interval_seconds"

_LOOK_AGAIN_SECONDS = 5.0
_LEAST_DEADBAND = 0.25  # cores


@dataclass(frozen=True)
class Settings:
    """Load of a node that best-effort pods may bring about."""

    enable: bool = False
    """True if best-effort pods are held down at all."""
    threshold_percent: Annotated[float, Meta(ge=0, le=100)] = 65
    """Of the node's CPUs: what it may use together with best-effort pods."""
    min_percent: Annotated[float, Meta(ge=0, le=100)] = 0
    """Of the node's CPUs: what best-effort pods have in any case."""
    policy: SuppressPolicy = SuppressPolicy.CPUSET
    """Means to hold them down: cpuset or cfsQuota."""
    growth_percent: Annotated[float, Meta(gt=0, le=100)] = 10
    """Of the node's CPUs: how much more they get in one round at most."""
    grow_after_seconds: Annotated[float, Meta(ge=0, le=3600)] = 5
    """Seconds for which there must have been more before they get it."""
    deadband_percent: Annotated[float, Meta(ge=0, le=100)] = 2
    """Of the node's CPUs, and a quarter of a CPU at least: with policy cpuset best-effort pods keep
    what they have while it is too much by no more than this; 0: for not even that."""
    quota_change_percent: Annotated[float, Meta(ge=0, le=100)] = 1
    """Of the node's CPUs: a quota that would change by less stays."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from ``resourceUsedThresholdWithBE``."""
    asked = slo.threshold
    return Settings(
        asked.enable,
        asked.cpu_suppress,
        asked.cpu_suppress_min or 0,
        asked.cpu_suppress_policy,
    )


class _PoolInputs(NamedTuple):
    """All that the pools follow from."""

    pods: tuple[PodView, ...]
    cpus: tuple[Processor, ...]
    topology: Topology | None
    aside: ReservedCPUs
    above: Value | None


@dataclass(frozen=True, slots=True)
class _Memory:
    """The last desired values, and their inputs.

    ``policy`` is ``None`` as long as what was found at the start is held. ``cpus`` and ``quota``
    are the desired values, ``None`` for none. ``looked_at`` is when the groups below were looked
    for, by the steady clock.
    """

    policy: SuppressPolicy | None = None
    spell: Spell = ()
    cpus: frozenset[int] | None = None
    quota: int | None = None
    cores: float | None = None
    outcome: str = ""
    why: str = ""
    static: bool = False
    pods: tuple[PodView, ...] = ()
    looked_at: float = 0.0
    groups: tuple[str, ...] = ()
    desired: tuple[DesiredValue, ...] = ()
    who: _PoolInputs | None = None
    pools: CPUPools = field(default_factory=CPUPools)


_OFF = Plan(
    decisions=(Decision("best-effort pods are not held down: the NodeSLO does not enable it"),)
)
_FIRST = _Memory()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The CPUs or the quota of best-effort pods, as far as all is known."""
    before = memory if isinstance(memory, _Memory) else _FIRST
    if not settings.enable:
        return _off_claims(view, before) if any(view.set_aside.claims.values()) else _OFF
    load = suppression_formula.measure(view)
    if isinstance(load, NodeCPULoad) and not be_cpus.owners_known(view):
        load = "exclusive CPUs"
    if isinstance(load, str):
        return _hold(view, before, load)
    before = _with_pools(view, before)
    advice = least_advice(view)
    limits = SuppressionLimits(settings.threshold_percent, settings.min_percent, advice)
    amount = suppression_formula.amount(
        load, limits, before.spell, view.steady, settings.grow_after_seconds
    )
    by_quota = settings.policy is SuppressPolicy.CFS_QUOTA or not before.pools.allowed
    step = (_quota if by_quota else _cpus)(view, settings, amount, before)
    formula = f"{amount.formula}; {step.formula}"
    decision = Decision(step.outcome, formula, (*amount.given, *step.given))
    after = replace(_carry(view, before, step, decision), policy=settings.policy)
    signals = (_left(step.cores, step.quota), StrategySignal("ls_used_cpu_cores", load.pods))
    return Plan(
        after.desired,
        (decision,),
        signals=signals,
        memory=replace(after, spell=amount.spell),
    )


def _left(cores: float, quota: int | None) -> StrategySignal:
    """Return the signal of the cores left to best-effort pods, by the means."""
    way = SuppressPolicy.CPUSET if quota is None else SuppressPolicy.CFS_QUOTA
    return StrategySignal(f"be_suppress_cpu_cores/{way}", cores)


# ---- what is to be done about it


class _Step(NamedTuple):
    """The desired cpusets and quota, and their size in cores."""

    cpus: frozenset[int] | None
    quota: int | None
    cores: float
    outcome: str
    formula: str
    given: tuple[Term, ...]


_POOLS = "LSR CPUs + shared CPUs"
_CPUS = f"CPUs = min(max(least CPUs, min(⌈cores⌉, CPUs before + growth)), {_POOLS})"
_CPUS_KEPT = f"CPUs = min(CPUs before, max(⌈cores + dead band⌉, least CPUs), {_POOLS})"
_QUOTA = "quota = max(min(cores × period, quota before + growth), least quota)"
_QUOTA_KEPT = "quota = max(quota before, least quota)"
_QUOTA_AT_ONCE = "quota = max(cores × period, least quota)"
_QUOTA_ALONE = "quota = least quota"


def _cpus(
    view: StrategyView, settings: Settings, amount: SuppressionAmount, before: _Memory
) -> _Step:
    had = be_groups.cpus_found(view) if before.cpus is None else before.cpus
    deadband = _deadband(settings, len(view.cpus))
    count = be_cpus.count_of(
        amount.cores,
        len(had),
        len(view.cpus),
        settings.growth_percent,
        amount.least,
        deadband,
    )
    chosen = be_cpus.choose_cpus(count, before.pools, view.cpus, had)
    outcome = _running_on(chosen, view)
    if len(chosen) < count:
        outcome += "; LSE pods and reservations leave no more"
    kept = be_cpus.is_kept(amount.cores, len(had), amount.least, deadband)
    growth = be_cpus.growth(len(view.cpus), settings.growth_percent)
    given = (
        Term("dead band", deadband, "cores") if kept else Term("growth", growth, "CPUs"),
        Term("least CPUs", be_cpus.least_count(amount.least)),
        Term("CPUs before", len(had)),
        Term("CPUs", len(chosen)),
        *_owners(before.pools),
    )
    formula = _CPUS_KEPT if kept else _CPUS
    return _Step(chosen, None, float(len(chosen)), outcome, formula, given)


def _deadband(settings: Settings, cpus: int) -> float:
    """Return the excess of cores up to which no CPU is taken away."""
    if not settings.deadband_percent:
        return 0.0
    return max(cpus * settings.deadband_percent / 100, _LEAST_DEADBAND)


def _running_on(cpus: frozenset[int], view: StrategyView) -> str:
    none = (
        "" if any(map(suppression_formula.is_best_effort, view.pods)) else " (there are none now)"
    )
    return f"best-effort pods{none} run on {len(cpus)} CPUs: {cpuset.render(cpus)}"


def _owners(pools: CPUPools) -> tuple[Term, ...]:
    return (
        Term("LSE CPUs", len(pools.lse)),
        Term("CPUs set aside", len(pools.aside)),
        Term("LSR CPUs", len(pools.lsr)),
        Term("shared CPUs", len(pools.shared)),
    )


def _quota(
    view: StrategyView, settings: Settings, amount: SuppressionAmount, before: _Memory
) -> _Step:
    """A quota on all of them; CPUs only where some are not for sharing.

    The policy cpuset comes here too when there is no CPU at all that they may run on.
    """
    period = _period(view)
    pools = before.pools
    allowed = pools.allowed if pools.lse or pools.aside else None
    if not pools.allowed:
        return _without_cpus(pools, period)
    had = before.quota
    if had is None:
        had = be_groups.number_now(view, QUOTA) or NO_LIMIT
    percent = amount.capacity * period / 100
    growth = int(settings.growth_percent * percent)
    wanted = be_quota.quota_of(amount.cores, period)
    least = be_quota.quota_of(amount.least, period)
    change = settings.quota_change_percent * percent
    quota = be_quota.next_quota(had, wanted, least, change, growth)
    formula = _QUOTA
    if had == NO_LIMIT:
        formula = _QUOTA_AT_ONCE
    elif be_quota.is_kept(had, wanted, change):
        formula = _QUOTA_KEPT
    outcome = f"best-effort pods may use {quota / period:g} cores"
    if not any(map(suppression_formula.is_best_effort, view.pods)):
        outcome += " (there are none now)"
    given = (
        Term("period", period, "µs"),
        Term("quota before", "no limit" if had == NO_LIMIT else had, "µs"),
        Term("growth", growth, "µs"),
        Term("least quota", least, "µs"),
        Term("quota", quota, "µs"),
        *_owners(pools),
    )
    return _Step(allowed, quota, quota / period, outcome, formula, given)


def _without_cpus(pools: CPUPools, period: int) -> _Step:
    cores = be_quota.LEAST / period
    outcome = (
        "no CPU is left to best-effort pods: LSE pods and reservations have all; "
        f"they may use {cores:g} cores"
    )
    given = (Term("least quota", be_quota.LEAST, "µs"), Term("quota", be_quota.LEAST, "µs"))
    return _Step(None, be_quota.LEAST, cores, outcome, _QUOTA_ALONE, (*given, *_owners(pools)))


def _period(view: StrategyView) -> int:
    return be_groups.number_now(view, PERIOD) or be_quota.USUAL_PERIOD


# ---- while it is not enabled


def _off_claims(view: StrategyView, before: _Memory) -> Plan:
    """All CPUs but those that strategies claim: nobody else keeps best-effort pods off them."""
    if not view.cpus or not be_cpus.owners_known(view):
        return _hold(view, before, "exclusive CPUs")
    before = _with_pools(view, before)
    cpus = before.pools.allowed or None
    outcome = _running_on(cpus or frozenset(), view) + "; the NodeSLO does not hold them down"
    step = _Step(cpus, None, float(len(cpus or ())), outcome, "", _owners(before.pools))
    decision = Decision(outcome, given=step.given)
    after = replace(_carry(view, before, step, decision), policy=SuppressPolicy.CPUSET)
    return Plan(after.desired, (decision,), memory=after)


# ---- while something is not known


def _hold(view: StrategyView, before: _Memory, missing: str) -> Plan:
    """Keep the desired values; after a restart, those of the cgroups."""
    if before.policy is None:
        held = before if before.outcome else _as_found(view)
    else:
        held = _held(view, before)
    decision = Decision(f"{missing}: not known; {held.outcome}")
    signals = () if held.cores is None else (_left(held.cores, held.quota),)
    return Plan(held.desired, (decision,), signals=signals, memory=held)


def _as_found(view: StrategyView) -> _Memory:
    left = be_groups.left_behind(view)
    return _Memory(outcome="what was found is left as it is", desired=left)


def _held(view: StrategyView, before: _Memory) -> _Memory:
    """As many CPUs as before, but none that an LSE pod has now."""
    step = _Step(before.cpus, before.quota, before.cores or 0.0, before.outcome, "", ())
    if before.cpus and view.cpus and be_cpus.owners_known(view):
        before = _with_pools(view, before)
        chosen = be_cpus.choose_cpus(
            len(before.cpus or ()), before.pools, view.cpus, before.cpus or frozenset()
        )
        if not chosen:
            step = _without_cpus(before.pools, _period(view))
        elif chosen != before.cpus:
            step = step._replace(cpus=chosen, outcome=_running_on(chosen, view))
    return _carry(view, before, step, Decision(step.outcome))


# ---- the groups


def _with_pools(view: StrategyView, before: _Memory) -> _Memory:
    """The CPU pools; computed again when a pod or the machine has changed."""
    above = view.cgroups.now(be_cpus.all_pods(view), CPUSET)
    who = _PoolInputs(view.pods, view.cpus, view.node.topology, view.set_aside, above)
    if who == before.who:
        return before
    return replace(before, who=who, pools=be_cpus.pools(view))


def _carry(view: StrategyView, before: _Memory, step: _Step, decision: Decision) -> _Memory:
    """The desired values of a step; the same objects as long as nothing has changed."""
    static = be_groups.is_static(view)
    pods = tuple(pod for pod in view.pods if pod.kube is KubeQoS.BEST_EFFORT)
    same = (step.cpus, step.quota, static) == (before.cpus, before.quota, before.static)
    known = same and pods == before.pods
    if known and view.steady - before.looked_at < _LOOK_AGAIN_SECONDS and before.policy is not None:
        return replace(before, outcome=step.outcome, cores=step.cores)
    why = before.why if same and before.why else str(decision)
    groups = be_groups.groups(view) if step.cpus is not None else ()
    desired = before.desired
    if not same or groups != before.groups or before.policy is None:
        cpus = cpuset.render(step.cpus or ())
        desired = tuple(DesiredValue(Target(group, CPUSET), cpus, why) for group in groups)
        if step.quota is not None:
            desired += (DesiredValue(Target(view.be_group, QUOTA), step.quota, why),)
    return replace(
        before,
        cpus=step.cpus,
        quota=step.quota,
        cores=step.cores,
        outcome=step.outcome,
        why=why,
        static=static,
        pods=pods,
        looked_at=view.steady,
        groups=groups,
        desired=desired,
    )
