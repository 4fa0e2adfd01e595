"""Vectors: inputs, what the Go original made of them, and where we differ on purpose."""

from __future__ import annotations

import itertools
import json
import lzma
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Fields = Mapping[str, Any]
DATA = Path(__file__).parent / "data"
STEP = int(os.environ.get("CONFORMANCE_STEP", "10"))
"""Replay each tenth vector, or with 1 all of them, as ``make conformance`` does."""


@dataclass(frozen=True)
class Vector:
    """One input, and what came of it there.

    Where decisions say that we read it in another way, ``decisions`` are their names, and
    ``meant`` is what came of the input as it reads by them.
    """

    place: int
    given: Object
    recorded: Object
    decisions: tuple[str, ...] = ()
    meant: Object | None = None


Difference = Callable[[Vector, str, Fields, Fields], bool]
"""A documented decision: of which fields of which inputs we make something else, and why.

It gets the vector, a field that differs, and all fields as they are here and there; it returns
whether that field is here what the decision says.
"""


def header(name: str) -> Object:
    """Where the vectors of a file come from."""
    with lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return dict(json.loads(next(lines)))


def load(name: str, step: int = 1) -> Iterator[Vector]:
    """The vectors of a file, or each ``step``-th of them."""
    with lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        next(lines)
        for place, line in itertools.islice(enumerate(lines), 0, None, step):
            one = json.loads(line)
            decisions = tuple(one.get("decisions", ()))
            yield Vector(place, one["in"], one["out"], decisions, one.get("meant"))


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    """What is at the ends of a document, by path."""
    if isinstance(tree, Mapping):
        parts = {f"{path}.{name}" if path else name: one for name, one in tree.items()}
    elif isinstance(tree, list):
        parts = {f"{path}[{place}]": one for place, one in enumerate(tree)}
    else:
        return {path: tree}
    return {name: end for at, one in parts.items() for name, end in leaves(one, at).items()}


def replay(
    name: str,
    ours: Callable[[Vector], Fields],
    flat: Callable[[Object], Fields],
    differences: tuple[Difference, ...] = (),
    decisions: Collection[str] = (),
) -> None:
    """Each field of each vector is as recorded, or as a documented decision says.

    ``flat`` makes fields of what was recorded. ``decisions`` are those by which inputs read
    otherwise. One that explains no vector at all any more is a mistake too.
    """
    used: set[str] = set()
    wrong: list[str] = []
    number = 0
    for vector in load(name, STEP):
        number += 1
        here, there = ours(vector), flat(vector.recorded)
        meant = there if vector.meant is None else flat(vector.meant)
        for field in here.keys() | there.keys() | meant.keys():
            mine, recorded = here.get(field), meant.get(field)
            if mine == recorded:
                used.update(vector.decisions if recorded != there.get(field) else ())
                continue
            why = [one.__name__ for one in differences if one(vector, field, here, meant)]
            used.update(why)
            if not why:
                wrong.append(f"{name}:{vector.place} {field}: recorded {recorded}, ours {mine}")
    assert number == len(range(0, header(name)["vectors"], STEP))
    assert wrong == [], f"{len(wrong)} differ: {wrong[:5]}"
    explanations = {one.__name__ for one in differences} | set(decisions)
    assert used == explanations or (STEP > 1 and used < explanations)
