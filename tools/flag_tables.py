"""Write the tables of flags into the pages that have them: ``python tools/flag_tables.py``.

What is between ``<!-- flags: PROGRAM -->`` and the next ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import koord_descheduler.program.settings
import koord_manager.program.config
import koord_proxy.config
import koord_scheduler.program.settings
import koordlet.agent.config
from koord_service.settings import flag_of

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    DOCS / "operations/settings.md",
    DOCS / "manager/settings.md",
    DOCS / "scheduler/settings.md",
    DOCS / "descheduler/settings.md",
)
PROGRAMS: dict[str, Any] = {
    "koord-runtime-proxy": koord_proxy.config.ProxySettings,
    "koordlet": koordlet.agent.config.KoordletSettings,
    "koord-manager": koord_manager.program.config.Settings,
    "koord-scheduler": koord_scheduler.program.settings.SchedulerSettings,
    "koord-descheduler": koord_descheduler.program.settings.DeschedulerSettings,
}
_PLACE = re.compile(r"(<!-- flags: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with its tables as the programs have them now."""
    return _PLACE.sub(lambda place: place[1] + table(place[2]) + place[3], page)


def table(program: str) -> str:
    """One program's flags."""
    return table_of(PROGRAMS[program])


def table_of(settings: Any) -> str:
    """Flags of a class of settings."""
    return "".join(f"{line}\n" for line in _lines(settings))


def _lines(settings: Any) -> Iterator[str]:
    yield "| flag | default | what it is |"
    yield "|---|---|---|"
    for field in dataclasses.fields(settings):
        words = field.metadata["help"].replace("|", "\\|")
        if field.metadata["choices"]:
            words += ": " + ", ".join(f"`{choice}`" for choice in field.metadata["choices"])
        words += _aliases("also", field.metadata["aliases"])
        words += _aliases("the opposite of", field.metadata["negated_aliases"])
        yield f"| `{flag_of(field)}` | {_default(field.default)} | {words} |"


def _aliases(words: str, flags: Sequence[str]) -> str:
    return f" ({words} {', '.join(f'`{flag}`' for flag in flags)})" if flags else ""


def _default(value: Any) -> str:
    if value is None:
        return "–"
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    return f"`{text}`" if text else "–"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))
