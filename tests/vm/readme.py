"""The commands of the README's section "On a real node", step by step; the same of the docs."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
COLLECTORS = README.parent / "docs/collectors.md"
DOCKER = README.parent / "docs/operations/docker.md"
STRATEGIES = README.parent / "docs/strategies/caches-and-disks.md"
PLUGINS = README.parent / "docs/operations/resource-plugins.md"
INTERRUPTS = README.parent / "docs/strategies/interrupts.md"
DROP_INS = (
    (COLLECTORS, "perf_event_open"),
    (COLLECTORS, "RestrictNamespaces"),
    (STRATEGIES, "/proc/sys/vm"),
    (INTERRUPTS, "ProtectKernelTunables"),
    (PLUGINS, "/var/lib/katalyst"),
)
"""Additions by an administrator who turns everything on: pages, and a word of what they show."""


def steps(text: str, section: str = "On a real node") -> dict[int, list[str]]:
    """The commands of each step, as they stand there: what is code and more than one word."""
    body = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    items = re.split(r"^(\d+)\. ", body, flags=re.MULTILINE)[1:]
    bodies = zip(items[::2], (item.partition("\n\n")[0] for item in items[1::2]), strict=True)
    return {int(number): _commands(body) for number, body in bodies}


def drop_in(text: str, word: str) -> str:
    """The drop-in of a unit that has this word in it."""
    found = re.findall(r"^```ini\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    [one] = (one for one in found if word in one)
    return one


def _commands(body: str) -> list[str]:
    quoted = re.findall(r"`([^`]+)`", body)
    # A path, a flag or a setting is one word.
    return [" ".join(code.split()) for code in quoted if re.search(r"\S\s+\S", code)]
