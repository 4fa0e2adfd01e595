"""Says which feature gates have no effect: another program's, or a typing error.

Koordinator and Kubernetes refuse to start then. Here a gate of theirs that has no meaning must not
keep a program from taking over from theirs; so it starts, and an unknown gate is an error line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from koord_service.logs import EventLog

_MOST = 3
_ALIKE = 0.75
_LONGEST = 64
"""Longer names are those of no gate."""


def report_unknown(
    log: EventLog, given: Iterable[str], known: Collection[str], unused: Collection[str] = ()
) -> None:
    """Log the gates ("NAME=true") that are not in force.

    ``known`` have an effect in this program; ``unused`` are of its counterpart, and have none here.
    """
    for gate in given:
        name, _, value = gate.partition("=")
        if name in unused:
            log.info("feature gate has no effect here", gate=gate)
        else:
            reason = f"it is ignored; {_hint(name, (*known, *unused))}"
            log.error("unknown feature gate", gate=name, value=value, reason=reason)


def _hint(name: str, known: Collection[str]) -> str:
    names = {name.casefold(): name for name in sorted(known)}
    near = get_close_matches(name[:_LONGEST].casefold(), names, _MOST, _ALIKE)
    if near:
        return f"did you mean {' or '.join(names[name] for name in near)}?"
    return f"the gates are {', '.join(sorted(known))}"
