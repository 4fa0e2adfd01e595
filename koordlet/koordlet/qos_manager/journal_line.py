"""Decisions as lines of the journal, and back."""

from __future__ import annotations

from collections.abc import Callable

from koord_host.resource_executor.journal import DecisionEntry, Event
from koord_model.times import from_rfc3339, rfc3339_milli

from koordlet.qos_manager.core.decision_log import DecisionKey, DecisionRecord, plain
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, Term


def line(entry: DecisionRecord) -> DecisionEntry:
    """The journal entry of a decision."""
    decision = entry.decision
    return DecisionEntry(
        rfc3339_milli(entry.at),
        entry.strategy,
        entry.mode.value,
        decision.outcome,
        decision.formula,
        tuple((name, plain(value), unit) for name, value, unit in decision.given),
        decision.pod,
        decision.group,
        decision.aspect,
    )


def entry(decided: DecisionEntry) -> DecisionRecord | None:
    """The decision of a line; ``None`` if its time or mode is not valid.

    The journal does not record when a decision ended.
    """
    try:
        at, mode = from_rfc3339(decided.time), StrategyMode(decided.mode)
        rfc3339_milli(at)
    except (ValueError, OverflowError, OSError):
        return None
    decision = Decision(
        decided.outcome,
        decided.formula,
        tuple(Term(*given) for given in decided.given),
        decided.pod,
        decided.group,
        decided.aspect,
    )
    return DecisionRecord(at, decided.strategy, mode, decision)


def identity(decision_record: DecisionRecord) -> tuple[str, DecisionKey]:
    """A key that an entry shares with its journal line, which has milliseconds only."""
    return rfc3339_milli(decision_record.at), decision_record.key


def key(decided: DecisionEntry) -> DecisionKey:
    """Return the subject of a line."""
    return DecisionKey(decided.strategy, decided.aspect, decided.pod, decided.group)


def decisions(wanted: Callable[[DecisionKey], bool]) -> Callable[[Event], bool]:
    """Return the filter of the journal's events for decisions that are ``wanted``."""
    return lambda event: isinstance(event, DecisionEntry) and wanted(key(event))
