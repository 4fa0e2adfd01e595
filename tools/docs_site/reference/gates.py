"""Feature gates of all programs. No IO."""

from __future__ import annotations

from collections.abc import Mapping

import koord_descheduler.program.gates
import koord_manager.program.gates
import koord_scheduler.program.gates
import koordlet.agent.feature_gates

from tools.docs_site.reference.markdown import code, table

GATES: Mapping[str, Mapping[str, bool]] = {
    "koordlet": koordlet.agent.feature_gates.DEFAULTS,
    "koord-manager": koord_manager.program.gates.DEFAULTS,
    "koord-scheduler": koord_scheduler.program.gates.DEFAULTS,
    "koord-descheduler": koord_descheduler.program.gates.DEFAULTS,
}
_SETTINGS = {
    "koordlet": "../operations/settings.md#feature-gates-of-koordlet",
    "koord-manager": "../manager/settings.md#feature-gates",
    "koord-scheduler": "../scheduler/settings.md",
    "koord-descheduler": "../descheduler/settings.md",
}


def markdown() -> str:
    """Return all gates by name; one that two programs have is two rows."""
    rows = sorted(
        (name, program, is_on) for program, gates in GATES.items() for name, is_on in gates.items()
    )
    return table(
        ("gate", "program", "default"),
        (
            (code(name), f"[{program}]({_SETTINGS[program]})", "on" if is_on else "off")
            for name, program, is_on in rows
        ),
    )
