"""Requests and limits that may not be lowered again for a day, since that did harm. No IO.

They are an annotation of the Recommendation, or of the VPA: a new leader knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from koord_model.demand import Amounts

ANNOTATION_FLOORS = "analysis.koordinator.sh/pykoord-resize-undone"
FLOOR_SECONDS = 86400.0
"""A day, as loads have days. Recommendations learn from kills themselves, for a week."""
_MOST = 48
"""Containers in an annotation, the newest ones; as many as a Recommendation covers."""


class Floor(msgspec.Struct, frozen=True):
    """Requests and limits ("limits.memory") of a container at least, until a time of the epoch."""

    least: dict[str, Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]]
    until: Annotated[float, msgspec.Meta(ge=0)]


Floors = Mapping[str, Floor]
"""By container."""

_DECODER = msgspec.json.Decoder(dict[str, Floor])


def encode(floors: Floors) -> str:
    """The annotation's value."""
    newest = sorted(floors.items(), key=lambda named: named[1].until)[-_MOST:]
    return msgspec.json.encode(dict(newest), order="sorted").decode()


def read(text: str) -> Floors:
    """The annotation's value; nothing where it is empty.

    Raises:
        ValueError: it cannot be read; one line names it.
    """
    try:
        return _DECODER.decode(text) if text else {}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        way_out = "no pod is resized; remove it"
        raise ValueError(f"annotation {ANNOTATION_FLOORS}: {error} ({way_out})") from None


def with_undone(floors: Floors, undone: Mapping[str, Amounts], now: float) -> Floors:
    """Return floors that hold, and those of what is undone now; of both the higher one."""
    found = {name: floor for name, floor in floors.items() if floor.until > now}
    for name, requests in undone.items():
        known = found[name].least if name in found else {}
        least = {
            resource: max(known.get(resource, 0), requests.get(resource, 0))
            for resource in known.keys() | requests.keys()
        }
        found[name] = Floor(least, now + FLOOR_SECONDS)
    return found
