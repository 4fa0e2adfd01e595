"""``koordctl schedule --replay``: the decisions of a recording, made again."""

from __future__ import annotations

import datetime
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from koord_service.programs import needs_extra

from koordctl.errors import UsageError
from koordctl.output.documents import renamed
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, indented, table
from koordctl.placement_text import placement_lines
from koordctl.render import clean, count, span, time_text
from koordctl.scheduler_documents import DecisionOutcomeRow, ReplayDocument, ReplayedDecisionRow

_MODULE = "koord_scheduler.program.replay"
_GZIP = 31
_CHUNK = 1 << 20


def run(path: str, config: str, why: str) -> CommandOutput:
    """Replay a recording with the present code.

    Raises:
        UsageError: the file or the configuration is not valid.
    """
    with needs_extra("koordctl", "scheduler"):
        # By its name: the components of pykoord do not depend on each other.
        replay: Any = importlib.import_module(_MODULE).replay
    try:
        found = replay(lambda: read_lines(path), config, why)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, zlib.error) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from None
    document = renamed(found, ReplayDocument)
    shown = msgspec.convert(found, ReplayDocument)
    is_known = bool(shown.explained) or not why
    return CommandOutput(document, lines(shown, why), None if is_known else "")


def read_lines(path: str) -> Iterator[bytes]:
    """The lines of a file in gzip, of which the end may be missing.

    Raises:
        OSError: it cannot be read.
        zlib.error: it is damaged.
    """
    unpack = zlib.decompressobj(wbits=_GZIP).decompress
    rest = b""
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            *whole, rest = (rest + unpack(chunk)).split(b"\n")
            yield from whole
    if rest:
        yield rest


def lines(
    found: ReplayDocument, why: str = "", zone: datetime.tzinfo | None = None
) -> Iterator[Block]:
    """All decisions; those that are explained; what differs. ``zone`` is that of the times."""
    decisions = found.decisions
    if decisions and not why:
        header = ("", "TIME", "POD", "DECISION", "RECORDED")
        yield table(
            [header, *(_row(decision, zone) for decision in decisions)], words=(1, 2, 3, 4), name=2
        )
        yield ""
    by_number = {decision.number: decision for decision in decisions}
    for explained in found.explained:
        decision = by_number[explained.number]
        yield f"Decision {decision.number} at {time_text(decision.at, zone)}"
        own = decision.recorded.node if decision.recorded is not None else ""
        yield from indented(placement_lines(explained, own))
        yield ""
    if why and not found.explained:
        yield f"The recording has no decision about {clean(why)}."
    if found.moved and not why:
        nodes = [
            (clean(decision.pod), _node(decision.recorded), _node(decision.replayed))
            for decision in found.moved
        ]
        yield table([("MOVED POD", "RECORDED", "NOW"), *nodes])
        yield ""
    yield from _summary(found, zone)


def _row(decision: ReplayedDecisionRow, zone: datetime.tzinfo | None) -> tuple[str, ...]:
    made = decision.replayed or decision.recorded
    pod = clean(made.pod) if made is not None else ""
    recorded = "" if decision.same else _decision(decision.recorded, pod)
    return (
        str(decision.number),
        time_text(decision.at, zone),
        pod,
        _decision(decision.replayed, pod),
        recorded,
    )


def _decision(outcome: DecisionOutcomeRow | None, pod: str) -> str:
    if outcome is None:
        return "none"
    other = f"{clean(outcome.pod)}: " if clean(outcome.pod) != pod else ""
    if outcome.result == "placed":
        return f"{other}{clean(outcome.node)}"
    victims = f", for {', '.join(map(clean, outcome.victims))}" if outcome.victims else ""
    on = f" on {clean(outcome.node)}" if outcome.node else ""
    return f"{other}{clean(outcome.result)}{on}{victims}"


def _node(name: str) -> str:
    return clean(name) or "none"


def _summary(found: ReplayDocument, zone: datetime.tzinfo | None) -> Iterator[Block]:
    began, decisions = time_text(found.started, zone), count(len(found.decisions), "decision")
    program = f"koord-scheduler {clean(found.version)}"
    yield f"{decisions} of {program}, recorded for {span(found.seconds)} from {began} on."
    if found.end:
        yield f"The recording ended: {clean(found.end)}."
    else:
        yield "The end of the recording is missing: the scheduler still writes it, or was killed."
    different = [decision.number for decision in found.decisions if not decision.same]
    if different:
        yield f"{len(different)} of them differ, the first is number {different[0]}."
    elif found.decisions:
        yield "All decisions are the same."
