"""Validity of desired values, whatever the kernel says."""

from __future__ import annotations

from koord_host.kernel_files import processes
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.planning.desired_values import DesiredValue, Owner
from koord_host.planning.outcomes import Outcome, Result


def problem(desired: DesiredValue, *, one_shot: bool = False) -> str:
    """Return why a value cannot be written, "" if it can; ``one_shot``: as an action done once."""
    knob = KNOBS.get(desired.target.knob)
    if knob is None:
        return f"{desired.target.knob} is not a knob"
    if knob.one_shot is not one_shot:
        how = (
            "to be done once, and has no state" if knob.one_shot else "a state, not to be done once"
        )
        return f"{desired.target.knob} is {how}"
    if leads_out(desired.target.place):
        return f"{desired.target.place} is outside of its root"
    if not _can_be_said(desired.target.place):
        return f"{desired.target.place!r} is not a valid file name"
    if knob.where is PlaceKind.PROCESS and not _is_listed(desired.target.place):
        return f"{desired.target.place} does not identify a process: its start time is missing"
    if isinstance(desired.value, str) and not _can_be_said(desired.value):
        return f"{desired.target.knob}: {desired.value!r} is not a valid text"
    try:
        knob.check(desired.value)
    except ValueError as error:
        return str(error)
    return ""


def leads_out(place: str) -> bool:
    """True if a place is not below where places begin, so that it is none."""
    return ".." in place.split("/")


def _is_listed(place: str) -> bool:
    """True if one certain process is meant, not any that has its number."""
    process = processes.parse(place)
    return process is not None and process.start is not None


def _can_be_said(text: str) -> bool:
    """True if the kernel accepts the text: foreign JSON may hold zeros and lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def invalid(owner: Owner, desired: DesiredValue, reason: str) -> Result:
    """The result for a value that cannot be written."""
    return Result(
        desired.target,
        Outcome.INVALID,
        None,
        desired.value,
        owner.name,
        desired.why,
        desired.pod,
        reason,
        alert=True,
    )
