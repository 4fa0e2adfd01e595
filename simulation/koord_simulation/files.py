"""Scenarios and traces from files, and the strategies that are installed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import yaml
from koord_prediction.trace import Trace
from koord_prediction.trace import parse as parse_trace
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.strategy import Strategy
from koordlet.qos_manager.strategy_table import select_enabled

from koord_simulation.scenario.scenario_file import ScenarioFile, parse

_GZIP = b"\x1f\x8b"


class ScenarioError(Exception):
    """A scenario that cannot be run; the message is one line."""


def load(path: Path) -> ScenarioFile:
    """The scenario of a file. A trace in it is looked for beside the file.

    Raises:
        ScenarioError: it cannot be read, or is none.
    """
    try:
        document: object = yaml.safe_load(path.read_text())
        return parse(document, lambda name: _trace(path.parent / name))
    except OSError as error:
        raise ScenarioError(f"{error.filename or path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"{path}: {' '.join(str(error).split())}") from None


def _trace(path: Path) -> Trace:
    packed = path.read_bytes()
    try:
        text = gzip.decompress(packed) if packed.startswith(_GZIP) else packed
        return parse_trace(io.StringIO(text.decode(), newline=""))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"trace {path.name}: {error}") from None


def strategies(names: Iterable[str]) -> tuple[Strategy, ...]:
    """The strategies of these names, at their usual intervals.

    Raises:
        ScenarioError: there is none of a name.
    """
    found, _ = select_enabled(asdict(KoordletSettings()), dict.fromkeys(DEFAULTS, True))
    known = {file.name: file for file in found}
    wanted = tuple(names)
    for name in wanted:
        if name not in known:
            raise ScenarioError(f"there is no strategy {name}; there are {', '.join(known)}")
    return tuple(known[name] for name in wanted)
