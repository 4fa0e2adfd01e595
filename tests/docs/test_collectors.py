"""docs/collectors.md says of each collector what its module says."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.metrics_advisor import collectors

from tests.docs.words import code, marked, page, rows

PAGE = page("collectors.md")
NAMES = [name for _, name, _ in pkgutil.iter_modules(collectors.__path__)]
_BRACES = re.compile(r"{([^}]*)}")
_IMPLIED = {"pod_uid", "container_id"}
"""Labels that the page speaks of once."""


TABLE = rows(marked(PAGE, "collectors"))
ROWS = {row[0].strip("`"): row for row in TABLE}


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"koordlet.metrics_advisor.collectors.{name}")


def _flag(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def _expanded(pattern: str) -> Iterator[str]:
    """ "{a,b}_c" is "a_c" and "b_c"."""
    parts = _BRACES.split(pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def test_the_table_has_every_collector_once() -> None:
    assert sorted(row[0] for row in TABLE) == sorted(f"`{name}`" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_gates_flags_and_intervals(name: str) -> None:
    module = _module(name)
    switches = [f"`{one if one in DEFAULTS else _flag(one)}`" for one in module.ENABLED_BY]
    assert ROWS[name][1] == (", ".join(switches) or "always")
    flags = code(ROWS[name][2])
    assert _flag(module.INTERVAL) in flags
    for flag in flags:
        seconds = getattr(KoordletSettings(), flag.removeprefix("--").replace("-", "_"))
        assert f"`{flag}` {seconds:g} s" in ROWS[name][2]


def test_every_kind_has_its_unit_and_its_labels() -> None:
    written: dict[str, tuple[str, set[str]]] = {}
    for pattern, unit, labels, collector in rows(marked(PAGE, "kinds")):
        assert collector.strip("`") in ROWS
        for kind in _expanded(pattern.strip("`")):
            assert kind not in written, f"{kind} is there twice"
            written[kind] = unit, set(code(labels))
    measured = {kind.name: (kind.unit, set(kind.labels) - _IMPLIED) for kind in KINDS.values()}
    assert written == measured
