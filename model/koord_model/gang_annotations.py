"""Gangs as pods and PodGroups describe them, and what of it is not valid. No IO.

For Koordinator's scheduler what is not valid counts as not given. So it does for ours, which says
so; and the webhook says it to whoever writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from koord_model import duration
from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MIN_AVAILABLE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_TOTAL_NUMBER,
    ANNOTATION_GANG_WAITING_TIME,
    ANNOTATION_OLD_GANG_MATCH_POLICY,
    LABEL_GANG_MIN_AVAILABLE,
)
from koord_model.whole_number import whole_number

MODES = ("Strict", "NonStrict")
MATCH_POLICIES = ("only-waiting", "waiting-and-running", "once-satisfied")
_DECODE_NAMES = msgspec.json.Decoder(list[str]).decode


def int32(text: str | None) -> int | None:
    """A number of 32 bits; ``None``: it is none."""
    return whole_number(text or "", bits=32)


def wait_seconds(text: str) -> float:
    """Parse the time that a gang may wait; 0 if there is none."""
    try:
        return duration.seconds(text)
    except ValueError:
        return 0.0


def group(text: str) -> tuple[str, ...]:
    """The gangs that start together, none if that is not valid."""
    try:
        return tuple(sorted(_DECODE_NAMES(text)))
    except msgspec.MsgspecError:
        return ()


_Rule = tuple[str, Callable[[str], object], str]
_POLICY: tuple[Callable[[str], object], str] = (
    MATCH_POLICIES.__contains__,
    " or ".join(MATCH_POLICIES),
)
_RULES: tuple[_Rule, ...] = (
    (ANNOTATION_GANG_MODE, MODES.__contains__, " or ".join(MODES)),
    (ANNOTATION_GANG_MATCH_POLICY, *_POLICY),
    (ANNOTATION_OLD_GANG_MATCH_POLICY, *_POLICY),
    (ANNOTATION_GANG_TOTAL_NUMBER, lambda text: int32(text) is not None, "a number"),
    (ANNOTATION_GANG_WAITING_TIME, wait_seconds, "a duration like 90s or 5m"),
    (ANNOTATION_GANG_GROUPS, group, 'a list of gangs like ["NAMESPACE/NAME"]'),
)


def minimum(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the source and the text of a pod's minimum of members that start together."""
    if given := labels.get(LABEL_GANG_MIN_AVAILABLE):
        return f"label {LABEL_GANG_MIN_AVAILABLE}", given
    key = ANNOTATION_GANG_MIN_AVAILABLE
    return f"annotation {key}", annotations.get(key, "")


def minimum_problem(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the error of the minimum that a pod names; "" if it is right, or not there."""
    name, given = minimum(labels, annotations)
    number = int32(given)
    if not given or (number is not None and number >= 0):
        return ""
    return _expected(name, given, "a number from 0")


def invalid(annotations: Mapping[str, str]) -> Iterator[str]:
    """A line for each annotation of a pod or PodGroup that counts as not given."""
    for key, is_valid, expected in _RULES:
        text = annotations.get(key, "")
        if text and not is_valid(text):
            yield _expected(f"annotation {key}", text, expected)


def _expected(name: str, given: str, expected: str) -> str:
    return f"{name} is {excerpt(given)}; expected {expected}"
