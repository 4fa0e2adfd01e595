"""Which wishes can be written at all, whatever the kernel says."""

from __future__ import annotations

from koord_host.knobs import KNOBS
from koord_host.outcomes import Outcome, Result
from koord_host.wishes import Owner, Wish


def trouble(wish: Wish, *, deed: bool = False) -> str:
    """Why a wish cannot be written, "" if it can; ``deed``: why not once."""
    knob = KNOBS.get(wish.target.knob)
    if knob is None:
        return f"{wish.target.knob} is no knob"
    if knob.deed is not deed:
        how = "to be done once, and has no state" if knob.deed else "a state, not to be done once"
        return f"{wish.target.knob} is {how}"
    if ".." in wish.target.place.split("/"):
        return f"{wish.target.place} leads out of where it begins"
    if not _can_be_said(wish.target.place):
        return f"{wish.target.place!r} is no name that a file can have"
    if isinstance(wish.value, str) and not _can_be_said(wish.value):
        return f"{wish.target.knob}: {wish.value!r} is no text"
    try:
        knob.check(wish.value)
    except ValueError as error:
        return str(error)
    return ""


def _can_be_said(text: str) -> bool:
    """Whether the kernel can be told: JSON from elsewhere may hold zeros and lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def invalid(owner: Owner, wish: Wish, reason: str) -> Result:
    """What becomes of a wish that cannot be written."""
    return Result(
        wish.target,
        Outcome.INVALID,
        None,
        wish.value,
        owner.name,
        wish.why,
        wish.pod,
        reason,
        alert=True,
    )
