"""docs/collectors.md says of each collector what its module says."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.metrics_advisor.collector_table import available
from koordlet.metrics_advisor.contract.metric_kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "collectors.md").read_text()
_KIND = re.compile(r"`([^`]+)` \(([^)]+)\)")
_BRACES = re.compile(r"{([^}]*)}")
_IMPLIED = {"pod_uid", "container_id"}
"""Labels that the page speaks of once."""


def _rows() -> Iterator[list[str]]:
    table = PAGE.partition("<!-- collectors -->")[2].partition("<!-- end -->")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


ROWS = {row[0].strip("`"): row for row in _rows()}


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
    assert len(list(_rows())) == len(ROWS)
    assert set(ROWS) == set(available())


@pytest.mark.parametrize("name", available())
def test_gates_and_flags(name: str) -> None:
    module = _module(name)
    switches = {one if one in DEFAULTS else _flag(one) for one in module.ENABLED_BY}
    cell = ROWS[name][1]
    assert set(re.findall(r"`([^`]+)`", cell)) == switches
    assert (cell == "always") == (not switches)


@pytest.mark.parametrize("name", available())
def test_intervals(name: str) -> None:
    written = {flag: float(text) for flag, text in re.findall(r"`(\S+)` (\d+) s", ROWS[name][2])}
    assert _flag(_module(name).INTERVAL) in written
    for flag, seconds in written.items():
        assert getattr(KoordletSettings(), flag.removeprefix("--").replace("-", "_")) == seconds


def test_every_kind_has_its_unit_and_its_labels() -> None:
    written: dict[str, tuple[str, set[str]]] = {}
    for row in ROWS.values():
        for pattern, words in _KIND.findall(row[3]):
            unit, _, labels = words.partition("; ")
            for kind in _expanded(pattern):
                assert kind not in written, f"{kind} is there twice"
                written[kind] = unit, set(labels.split(", ")) - {""}
    measured = {kind.name: (kind.unit, set(kind.labels) - _IMPLIED) for kind in KINDS.values()}
    assert written == measured
