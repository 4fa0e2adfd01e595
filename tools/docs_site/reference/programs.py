"""Flags of the programs. No IO."""

from __future__ import annotations

from typing import Any

import koord_devices.config

from tools import flag_tables

PROGRAMS: dict[str, Any] = {
    **flag_tables.PROGRAMS,
    "koord-device-daemon": koord_devices.config.DeviceDaemonSettings,
}


def markdown() -> str:
    """Return a section for each program."""
    return "\n".join(
        f"## {program}\n\n{flag_tables.table_of(settings)}"
        for program, settings in PROGRAMS.items()
    )
