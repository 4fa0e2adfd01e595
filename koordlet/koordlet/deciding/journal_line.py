"""Decisions as lines of the journal, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from koord_host.journal import Decided, Event, rfc3339

from koordlet.deciding.contract import Decision, Given, Mode
from koordlet.deciding.decisions import Entry, Key, plain


def line(entry: Entry) -> Decided:
    """What the journal is to hold of a decision."""
    one = entry.decision
    return Decided(
        rfc3339(entry.at),
        entry.strategy,
        entry.mode.value,
        one.outcome,
        one.formula,
        tuple((name, plain(value), unit) for name, value, unit in one.given),
        one.pod,
        one.group,
        one.aspect,
    )


def entry(decided: Decided) -> Entry | None:
    """The decision that a line holds; ``None`` where its time or mode is none that we know.

    Until when it stood the journal does not say.
    """
    try:
        at, mode = datetime.fromisoformat(decided.time).timestamp(), Mode(decided.mode)
        rfc3339(at)
    except (ValueError, OverflowError, OSError):
        return None
    one = Decision(
        decided.outcome,
        decided.formula,
        tuple(Given(*given) for given in decided.given),
        decided.pod,
        decided.group,
        decided.aspect,
    )
    return Entry(at, decided.strategy, mode, one)


def identity(one: Entry) -> tuple[str, Key]:
    """The same of an entry and of what the journal has of it, which knows milliseconds only."""
    return rfc3339(one.at), one.key


def key(decided: Decided) -> Key:
    """What a line is about."""
    return Key(decided.strategy, decided.aspect, decided.pod, decided.group)


def decisions(wanted: Callable[[Key], bool]) -> Callable[[Event], bool]:
    """Whether an event of the journal is a decision about what is ``wanted``."""
    return lambda event: isinstance(event, Decided) and wanted(key(event))
