"""``node-backstop-config``: rules about faults of nodes. No IO.

Our own key::

    {"koordletSilent": {"effect": "NoSchedule", "evict": "BE"},
     "conditions": {"KernelDeadlock": {"status": "True", "afterSeconds": 300, "evict": "all"}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from koord_kube.definitions.schema import Schema
from koord_model.fields import Fields, text

from koord_manager.slo_config.core.schema import fields_of

SILENT = "KoordletSilent"
"""Cause of the rule about koordlets that do not report."""

MOST_CONDITIONS = 32
_MOST_SECONDS = 86_400
_CONDITION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_KUBERNETES = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
"""Kubernetes taints nodes for these by itself, and evicts."""

_RULE = ("enable", "effect", "evict")


class TaintEffect(StrEnum):
    """Effects that a rule may have; ``NoExecute`` would evict beyond every budget."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"


class EvictScope(StrEnum):
    """Pods that are evicted from a tainted node."""

    NONE = "none"
    BE = "BE"
    ALL = "all"


class ConditionStatus(StrEnum):
    """Status of a Node's condition at which it is a fault."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class BackstopRule:
    """Consequences of one fault of a node."""

    enable: bool = True
    effect: TaintEffect = TaintEffect.NO_SCHEDULE
    evict: EvictScope = EvictScope.NONE


@dataclass(frozen=True, slots=True)
class ConditionRule:
    """A rule about a condition that has ``status`` for ``after_seconds`` without a break."""

    status: ConditionStatus = ConditionStatus.TRUE
    after_seconds: int = 300
    rule: BackstopRule = BackstopRule()


@dataclass(frozen=True, slots=True)
class BackstopRules:
    """The rules for one node; ``conditions`` by their type.

    A koordlet is silent after ``degradeTimeMinutes`` of ``colocation-config``: that is when what
    the node offers to batch pods goes as well.
    """

    silent: BackstopRule = BackstopRule(evict=EvictScope.BE)
    conditions: tuple[tuple[str, ConditionRule], ...] = ()


BACKSTOP_SCHEMA: Schema = fields_of(
    [],
    koordletSilent=fields_of(_RULE),
    conditions={"additionalProperties": fields_of(["status", "afterSeconds", *_RULE])},
)


def overlay_backstop(
    usual: BackstopRules, document: Mapping[str, object], where: str, problems: list[str]
) -> BackstopRules:
    """The rules in a document, laid over ``usual`` condition by condition."""
    fields = Fields(document, where, problems)
    listed = fields.of("conditions")
    found = dict(usual.conditions)
    for name, _ in listed.entries():
        if not _CONDITION.fullmatch(name) or name == SILENT:
            listed.refuse(name, "a name of at most 63 letters, digits and .-_", "")
        elif name in _KUBERNETES:
            listed.refuse(name, "nothing: Kubernetes taints nodes for it", "")
        else:
            found[name] = _condition(listed.of(name), found.get(name, ConditionRule()))
    if len(found) > MOST_CONDITIONS:
        fields.refuse("conditions", f"{MOST_CONDITIONS} conditions or fewer", "")
    return BackstopRules(
        _rule(fields.of("koordletSilent"), usual.silent), tuple(sorted(found.items()))
    )


def _condition(fields: Fields, usual: ConditionRule) -> ConditionRule:
    return ConditionRule(
        fields.word("status", usual.status),
        fields.number("afterSeconds", usual.after_seconds, 0, _MOST_SECONDS),
        _rule(fields, usual.rule),
    )


def _rule(fields: Fields, usual: BackstopRule) -> BackstopRule:
    enable = fields.flag("enable", usual.enable)
    effect = fields.word("effect", usual.effect)

    def accept(given: object) -> EvictScope:
        scope = EvictScope(text(given))
        if scope is not EvictScope.NONE and effect is not TaintEffect.NO_SCHEDULE:
            raise ValueError(given)
        return scope

    expected = "none, BE or all"
    if effect is not TaintEffect.NO_SCHEDULE:
        # Evicted pods would come back to the node.
        expected = f"none, as the effect is {effect}"
    evict = fields.take("evict", usual.evict, accept, expected, "")
    if effect is not TaintEffect.NO_SCHEDULE:
        evict = EvictScope.NONE
    return BackstopRule(enable, effect, evict)
