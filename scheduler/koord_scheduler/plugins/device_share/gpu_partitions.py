"""Sets of GPUs of a node that can work together, and which of them a pod gets. No IO.

Koordinator's ``deviceshare/allocator_gpu.go``. Cards that are joined by NVLink, say, can be cut
into partitions that do not see each other; a pod with several cards gets a whole partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, milli_quantity
from koord_model.keys import ANNOTATION_GPU_PARTITIONS

_MOST_GPUS = 1 << 10
_PACKING = ((8, 10_000), (4, 100), (2, 1))
"""Numbers of cards, and what it counts that a partition of so many stays free."""
_HOPPER = ("H100", "H800", "H20")
"""Models of NVIDIA whose eight cards are always cut in the same way."""


class GPUPartition(NamedTuple):
    """Cards that work together; ``bandwidth`` in thousandths of what is written, ``None``: unset.

    Of those with as many cards, the ones with the highest ``score`` are best.
    """

    minors: frozenset[int]
    score: int = 0
    bandwidth: int | None = None


Partitions = Sequence[GPUPartition]


def _hopper() -> Iterator[GPUPartition]:
    for size in (1, 2, 4, 8):
        for first in range(0, 8, size):
            yield GPUPartition(frozenset(range(first, first + size)), 1)


HOPPER_PARTITIONS = tuple(_hopper())
"""Eight cards in ones, twos, fours, and all together."""


def partitions_of_model(vendor: str, model: str) -> tuple[GPUPartition, ...] | None:
    """Those of nodes whose Device does not list any, by labels of the Node; ``None``: unknown."""
    return HOPPER_PARTITIONS if vendor in ("", "nvidia") and model in _HOPPER else None


def read_partitions(
    text: str | None, where: str, ignored: list[str]
) -> tuple[GPUPartition, ...] | None:
    """The annotation ``gpu-partitions``, by number of cards; a bad partition costs only itself."""
    if not text:
        return None
    where = f"{where} annotation {ANNOTATION_GPU_PARTITIONS}:"
    try:
        document = _OBJECT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        ignored.append(f"{where} {excerpt(text)} is no JSON object (ignored)")
        return None
    given = Fields(document, where, ignored)
    found: list[GPUPartition] = []
    for size in sorted(document):
        for one in given.objects(size):
            partition = _partition(one, size)
            if partition is not None:
                found.append(partition)
    return tuple(found)


_OBJECT = msgspec.json.Decoder(dict[str, object])


def _partition(fields: Fields, size: str) -> GPUPartition | None:
    minors = fields.take("minors", frozenset[int](), _minors, "GPUs by number", "left out")
    if str(len(minors)) != size:
        if minors or not fields.has("minors"):
            fields.refuse("minors", f"{size} GPUs by number", "left out")
        return None
    score = fields.take("allocationScore", 0, _score, "a whole number")
    bandwidth = fields.take("ringBusBandwidth", None, milli_quantity, "a quantity")
    return GPUPartition(minors, score, bandwidth)


def _minors(given: object) -> frozenset[int]:
    if not isinstance(given, list) or not all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST_GPUS
        for one in given
    ):
        raise ValueError(given)
    return frozenset(given)


def _score(given: object) -> int:
    """A number, or its text: some vendors write it so."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return int(given)


def choose_partition(
    partitions: Partitions,
    count: int,
    free: frozenset[int],
    used: frozenset[int],
    *,
    is_restricted: bool = False,
    bandwidth: int | None = None,
    preferred: frozenset[int] = frozenset(),
) -> GPUPartition | None:
    """The partition of ``count`` cards that a pod gets; ``None``: none is free.

    ``free`` are the healthy cards, ``used`` those of which pods have anything. Partitions with more
    ``preferred`` cards come first, then those with a higher score, and where it is restricted to
    the best, no others. Of equals, the one that keeps most larger partitions free is taken.
    """
    found: list[GPUPartition] = []
    alike = of_size(partitions, count)
    scores = sorted({one.score for one in alike}, reverse=True)
    for score in scores[:1] if is_restricted else scores:
        found += [
            one
            for one in alike
            if one.score == score
            and one.minors <= free - used
            and (bandwidth is None or (one.bandwidth is not None and one.bandwidth >= bandwidth))
        ]
        if found and not preferred:
            break

    def rank(gpu_partition: GPUPartition) -> tuple[int, int, int]:
        rest = _kept_free(partitions, count, used | gpu_partition.minors)
        return len(gpu_partition.minors & preferred), gpu_partition.score, rest

    return max(found, key=rank, default=None)


def of_size(partitions: Iterable[GPUPartition], count: int) -> list[GPUPartition]:
    """Those with so many cards, in their order."""
    return [partition for partition in partitions if len(partition.minors) == count]


def _kept_free(partitions: Partitions, count: int, used: frozenset[int]) -> int:
    """Value the partitions that are free beside ``used``: of each size, the best of them."""
    total = 0
    for size, weight in _PACKING:
        alike = of_size(partitions, size) if size >= count else []
        best = max((one.score for one in alike), default=0)
        total += sum(
            weight * one.score for one in alike if one.score == best and not one.minors & used
        )
    return total
