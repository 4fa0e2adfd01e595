"""The desired status of a Recommendation, and what it keeps over a restart. No IO.

The recommended requests are ``cpu`` and ``memory`` of ``status.podStatus.containerStatuses``, where
Koordinator's type has them; limits are beside them under the names that ResourceQuota gives them.
What was learnt is kept in an annotation of the object itself: it goes when the object does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from koord_model.keys import ANNOTATION_RECOMMENDATION_CHECKPOINT, CPU, MEMORY
from koord_model.quantity import binary_text, milli_text
from koord_model.times import from_rfc3339, rfc3339
from koord_prediction import checkpoint as files
from koord_prediction.checkpoint import Checkpoint
from koord_prediction.histogram import CPU as CPU_BUCKETS
from koord_prediction.histogram import MEMORY as MEMORY_BUCKETS

from koord_manager.recommendation.core.recommender import ContainerLearning, ContainerRecommendation

Json = dict[str, Any]

LIMITS = "limits."
CONDITION = "RecommendationProvided"
_LONGEST = 1024
_REFRESH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class RecommendationResult:
    """Recommendations for a target.

    ``problem`` is why there is no result, "" if there is one. ``history`` is in seconds.
    """

    advice: Sequence[ContainerRecommendation] = ()
    pods: int = 0
    history: float = 0.0
    needed: float = 0.0
    problem: str = ""


def status(finding: RecommendationResult, before: Mapping[str, Any], at: float) -> Json:
    """The object's status; a condition's time stays while it does not change."""
    now = rfc3339(at)
    condition = _condition(finding)
    old: Mapping[str, Any] = next(
        (
            condition
            for condition in before.get("conditions") or ()
            if condition.get("type") == CONDITION
        ),
        {},
    )
    same = old.get("status") == condition["status"]
    condition["lastTransitionTime"] = (old.get("lastTransitionTime") if same else None) or now
    found: Json = {"conditions": [condition], "updateTime": now}
    if finding.advice:
        containers = [_container(advice) for advice in finding.advice]
        found["podStatus"] = {"containerStatuses": containers}
    elif before.get("podStatus"):
        # What was recommended stays until there is something better.
        found["podStatus"] = before["podStatus"]
    return found


class _Before(msgspec.Struct):
    conditions: list[Json] | None = None


def status_before(document: Mapping[str, Any]) -> Json:
    """The status of an object as it is; empty where it is of another shape than ours."""
    given: Json | None = document.get("status")
    try:
        msgspec.convert(given, _Before | None)
    except msgspec.ValidationError:
        return {}
    return given or {}


def differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """True if the recommendation differs, or the written one is ten minutes old."""
    return _essence(before) != _essence(now) or _age(before, now) >= _REFRESH_SECONDS


def _essence(status: Mapping[str, Any]) -> object:
    """Return the recommendations and conditions without the numbers that always move."""
    conditions = status.get("conditions") or ()
    summary = [
        (condition.get("type"), condition.get("status"), condition.get("reason"))
        for condition in conditions
    ]
    return summary, status.get("podStatus")


def _age(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    try:
        since = from_rfc3339(str(before.get("updateTime")))
        return from_rfc3339(now["updateTime"]) - since
    except ValueError:
        return _REFRESH_SECONDS


def encode_checkpoints(learnt: Mapping[str, tuple[ContainerLearning, Checkpoint]]) -> str:
    """The annotation in which what was learnt is kept."""
    return msgspec.json.encode(
        {
            name: _StoredState(
                learning.since, learning.samples, learning.floor, learning.killed_at, _raw(model)
            )
            for name, (learning, model) in sorted(learnt.items())
        }
    ).decode()


def read(document: Mapping[str, Any]) -> Mapping[str, tuple[ContainerLearning, Checkpoint]]:
    """Read the state stored in a Recommendation; nothing if it has none.

    Raises:
        ValueError: the annotation cannot be read; one line names it.
    """
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(ANNOTATION_RECOMMENDATION_CHECKPOINT)
    if not text:
        return {}
    try:
        return {name: _learnt(stored) for name, stored in _DECODER.decode(text).items()}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        key = ANNOTATION_RECOMMENDATION_CHECKPOINT
        raise ValueError(f"annotation {key}: {error} (learnt anew)") from None


_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _StoredState(msgspec.Struct):
    since: _Seconds
    samples: Annotated[int, msgspec.Meta(ge=0)]
    floor: Annotated[float, msgspec.Meta(ge=0, le=1 << 60)]
    killed: _Seconds
    model: msgspec.Raw


_DECODER = msgspec.json.Decoder(dict[str, _StoredState])


def _raw(model: Checkpoint) -> msgspec.Raw:
    return msgspec.Raw(files.encode(model).strip())


def _learnt(stored_state: _StoredState) -> tuple[ContainerLearning, Checkpoint]:
    model = files.decode(bytes(stored_state.model), CPU_BUCKETS.count, MEMORY_BUCKETS.count)
    return ContainerLearning(
        stored_state.since, stored_state.samples, stored_state.floor, stored_state.killed
    ), model


def _condition(finding: RecommendationResult) -> Json:
    if finding.problem:
        return _says("False", "TargetUnusable", finding.problem)
    if not finding.pods:
        return _says("False", "NoPods", "no pod of the target is known")
    if finding.advice:
        lines = [
            f"{advice.container}: {decision}"
            for advice in finding.advice
            for decision in advice.decisions
        ]
        return _says("True", "Recommended", f"of {finding.pods} pods; {'; '.join(lines)}")
    if not finding.history:
        summary = f"no usage of its {finding.pods} pods' containers has been reported"
        return _says("False", "NoUsage", summary)
    hours, needed = finding.history / 3600, finding.needed / 3600
    return _says("False", "TooLittleHistory", f"usage of {hours:.1f} h is known of {needed:g} h")


def _says(state: str, reason: str, message: str) -> Json:
    short = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
    return {"type": CONDITION, "status": state, "reason": reason, "message": short}


def _container(advice: ContainerRecommendation) -> Json:
    resources = {}
    for prefix, amount in (("", advice.request), (LIMITS, advice.limit)):
        resources[f"{prefix}{CPU}"] = milli_text(round(amount.cpu * 1000))
        resources[f"{prefix}{MEMORY}"] = binary_text(round(amount.memory) >> 20 << 20)
    return {"containerName": advice.container, "resources": resources}
