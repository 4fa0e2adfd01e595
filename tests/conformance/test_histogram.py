"""Decaying histograms, against Koordinator's own."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
from koord_prediction import checkpoint
from koord_prediction.checkpoint import Checkpoint, LearntHistogram
from koord_prediction.histogram import CPU, EPSILON, MEMORY, Histograms

from tests.conformance.vectors import Fields, Object, Vector, replay

FRACTIONS = (0.5, 0.6, 0.9, 0.95, 0.98, 1.0)
_ROW = np.array([1], dtype=np.intp)
_ALL = np.array([0, 1, 2], dtype=np.intp)
"""Others are beside it, which nobody may notice."""


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    kind = MEMORY if given["memory"] else CPU
    found = Histograms(kind, given["halflife"], 3)
    if "from" in given:
        file = json.dumps({"CPU": given["from"]}).encode()
        found.put(1, *_learnt(checkpoint.decode(file, kind.count, kind.count).cpu))
    for value, at in given["samples"]:
        found.add(_ALL, np.array([value / 2, value, value + 1]), at)
    percentiles = np.nan_to_num(found.percentiles(_ROW, FRACTIONS)[0])
    pairs = zip(FRACTIONS, percentiles, strict=True)
    reported: Object = {f"{fraction:g}": one for fraction, one in pairs}
    reference, weights = found.weights(1)
    if percentiles.any():
        learnt = LearntHistogram(reference, weights)
        file = checkpoint.encode(Checkpoint("", learnt, learnt, 0.0))
        reported["checkpoint"] = json.loads(file)["CPU"]
    return flat(reported)


def _learnt(one: LearntHistogram) -> tuple[float, Any]:
    return one.reference, one.weights


def theirs(recorded: Object) -> dict[str, Any]:
    return flat(recorded)


def flat(reported: Object) -> dict[str, Any]:
    """Percentiles to six digits, and what the checkpoint says."""
    found = {name: float(f"{one:.6g}") for name, one in reported.items() if name != "checkpoint"}
    if "checkpoint" in reported:
        kept = reported["checkpoint"]
        found["reference"] = kept["referenceTimestamp"]
        found["total"] = float(f"{kept['totalWeight']:.6g}")
        found |= {f"bucket {bucket}": one for bucket, one in kept["bucketWeights"].items()}
    return found


def light_first(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A checkpoint is not empty because its first bucket has all but decayed."""
    del field
    kept = vector.given.get("from")
    if not kept or there["1"] or not here["1"]:
        return False
    return _weight(kept, min(kept["bucketWeights"], key=int)) < EPSILON


def greatest(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """The greatest sample is of a bucket that is not empty, and is not lost to rounding.

    There a checkpoint's last bucket counts however little it weighs, and one of less than the
    last digit of all others' weight does not.
    """
    kept = vector.given.get("from")
    if field != "1" or not kept:
        return False
    if here[field] < there[field]:
        return _weight(kept, max(kept["bucketWeights"], key=int)) < EPSILON
    learnt = datetime.fromisoformat(kept["referenceTimestamp"]).timestamp()
    if not vector.given["samples"]:
        return False
    return bool(vector.given["samples"][-1][1] - learnt > 52 * vector.given["halflife"])


def _weight(kept: Object, bucket: str) -> float:
    weights = kept["bucketWeights"]
    return float(weights[bucket] * kept["totalWeight"] / sum(weights.values()))


DIFFERENCES = (light_first, greatest)
DECISIONS = {
    "edges": "A sample at the very start of a bucket is in that bucket, however it is rounded."
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_histograms() -> None:
    replay("histogram", ours, theirs, DIFFERENCES, DECISIONS)
