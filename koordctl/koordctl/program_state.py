"""The state of a program as ``koordctl status`` shows it, on a node or in a cluster. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from koordctl.amounts import UNKNOWN
from koordctl.output.tables import Block, Style, StyledText, table
from koordctl.render import clean, span, time_text

_HEADER = ("PROGRAM", "PLACE", "VERSION", "HEALTH", "SINCE", "LEADER", "READY", "LEASE")
_WIDE = (7,)


class ProgramHealth(StrEnum):
    """Health of a program; ``ABSENT`` is one that need not be there."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"
    ABSENT = "not installed"


_STYLES = {
    ProgramHealth.OK: Style.GOOD,
    ProgramHealth.DEGRADED: Style.WARNING,
    ProgramHealth.DOWN: Style.BAD,
    ProgramHealth.ABSENT: Style.WARNING,
}


@dataclass(frozen=True, slots=True)
class ProgramProblem:
    """Degraded part of a program; ``way_out`` is where to look on, "" if the text says it."""

    text: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class ProgramState:
    """A program on this node or in the cluster.

    ``since`` is when it started, or began to lead; seconds since the epoch, ``None`` if unknown.
    ``mode`` is how it runs if that is not the usual way.
    """

    program: str
    place: str
    health: ProgramHealth
    version: str = ""
    since: float | None = None
    leader: str = ""
    ready: str = ""
    lease: str = ""
    mode: str = ""
    problems: Sequence[ProgramProblem] = ()


def state_blocks(states: Sequence[ProgramState], now: float) -> Iterator[Block]:
    """A row for each program, then what is degraded and where to look on."""
    yield table([_HEADER, *(_row(state, now) for state in states)], wide=_WIDE)
    for state in states:
        for problem in state.problems:
            yield f"{clean(state.program)} ({state.place}): {clean(problem.text)}"
            if problem.way_out:
                yield f"  → {clean(problem.way_out)}"


def _row(state: ProgramState, now: float) -> tuple[str, ...]:
    since = UNKNOWN
    if state.since is not None:
        since = f"{time_text(state.since, None)} ({span(now - state.since)})"
    health = f"{state.health}, {state.mode}" if state.mode else str(state.health)
    return (
        clean(state.program),
        state.place,
        clean(state.version) or UNKNOWN,
        StyledText.of(health, _STYLES[state.health]),
        since,
        *(clean(word) or UNKNOWN for word in (state.leader, state.ready, state.lease)),
    )
