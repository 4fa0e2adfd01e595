"""Feature gates of the descheduler. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

TIDE = "TideNodePool"
DEFAULTS: Mapping[str, bool] = {TIDE: False}

Gates = Mapping[str, bool]
"""Every gate, on or off."""


def gates_of(given: Iterable[str]) -> tuple[Gates, tuple[str, ...]]:
    """Every gate, and those ``given`` ("NAME=true") that do nothing here.

    Raises:
        ValueError: one of them is neither true nor false.
    """
    return feature_gates.gates_of(given, DEFAULTS)
