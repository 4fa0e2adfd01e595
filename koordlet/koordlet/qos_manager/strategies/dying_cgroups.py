"""Frees groups that were removed and live on, because memory is still charged to them.

Page cache keeps a removed cgroup ("dying") until somebody reclaims it; on a node whose pods come
and go there are thousands, which slow down whatever walks over groups. As Katalyst does it: where
there are more than 2000 below a class, 30 MiB of the class are reclaimed (``memory.reclaim``), up
to ten times in 300 s, each time that they were counted anew.

Needs cgroup v2, Linux 5.19 and the gate MemoryStatCollector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, StrategyView, Term
from koordlet.qos_manager.reclaim import memory_reclaim
from koordlet.qos_manager.reclaim.memory_reclaim import Reclaim

GATE = "DyingCgroupReclaim"
INTERVAL = "psi_collector_interval"

_KIND = "qos_dying_cgroups"
_FORMULA = "amount = batch where dying > most and done < batches else 0"


@dataclass(frozen=True, slots=True)
class Settings:
    """Groups of Kubernetes' classes, and the speed."""

    classes: tuple[KubeQoS, ...] = (KubeQoS.BEST_EFFORT,)
    """Of these classes of Kubernetes; Guaranteed is not measured."""
    most: Annotated[int, Meta(ge=0)] = 2000
    """So many dying cgroups do no harm."""
    batch_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 30)] = 30 << 20
    """Of the class at once."""
    batches: Annotated[int, Meta(ge=1, le=100)] = 10
    """In one period."""
    period_seconds: Annotated[float, Meta(ge=10, le=86400)] = 300
    """Then the batches count anew."""


def settings(slo: NodeSLO) -> Settings:
    """The defaults: Koordinator has nothing of the kind."""
    return Settings()


class _Period(NamedTuple):
    """Its begin by the steady clock, and batches since."""

    began: float
    done: int


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Plan a batch for each class that has too many."""
    why = memory_reclaim.why_not(view)
    if why:
        return memory_reclaim.off(why)
    before: Mapping[KubeQoS, _Period] = memory if isinstance(memory, dict) else {}
    after, reclaims = {}, []
    for kube in settings.classes:
        dying = view.latest.value(_KIND, kube.value)
        if dying is None:
            continue
        period = before.get(kube)
        if period is None or view.steady - period.began >= settings.period_seconds:
            period = _Period(view.steady, 0)
        reclaim = _of_class(view, kube, dying, period.done, settings)
        reclaims.append(reclaim)
        after[kube] = period._replace(done=period.done + (reclaim.amount > 0))
    if not reclaims:
        return memory_reclaim.off("the number of dying cgroups is not known")
    return memory_reclaim.plan(reclaims, "dying_cgroups_bytes", after)


def _of_class(
    view: StrategyView, kube: KubeQoS, dying: float, done: int, settings: Settings
) -> Reclaim:
    amount, outcome = 0, f"{kube.value}: nothing is reclaimed: there are few dying cgroups"
    if dying > settings.most:
        outcome = f"{kube.value}: too many dying cgroups: nothing more is reclaimed in this period"
        if done < settings.batches:
            amount = settings.batch_bytes
            outcome = f"{kube.value}: too many dying cgroups: memory is reclaimed"
    group = view.layout.kube_qos_group(kube)
    given = (
        Term("dying", dying),
        Term("most", settings.most),
        Term("done", done),
        Term("batches", settings.batches),
        Term("batch", settings.batch_bytes, "bytes"),
        Term("amount", amount, "bytes"),
    )
    return Reclaim(group, amount, Decision(outcome, _FORMULA, given, group=group))
