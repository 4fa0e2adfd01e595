"""Names that may be meant, where a name is none that there is. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from koordctl.render import clean

_MOST, _ALIKE = 2, 0.66
_MOST_LISTED = 5


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: names like this one; "" if none is."""
    near = get_close_matches(name, sorted({*known}), _MOST, _ALIKE)
    return f"; did you mean {' or '.join(map(clean, near))}?" if near else ""


def near(name: str, known: Collection[str]) -> str:
    """The same, with the first of the names that there are if none is like this one."""
    if hint := did_you_mean(name, known):
        return hint
    if not known:
        return "; there are none"
    listed = ", ".join(map(clean, sorted(known)[:_MOST_LISTED]))
    more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
    return f"; there are {listed}{more}"
