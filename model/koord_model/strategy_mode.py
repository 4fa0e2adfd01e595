"""Treatment of a strategy's plans. No IO."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self


class StrategyMode(StrEnum):
    """Treatment of a strategy's plans.

    YAML 1.1, so kubectl too, takes the bare words on and off for true and false: here those are
    the words again.
    """

    OFF = "off"  # it does not run
    SHADOW = "shadow"  # it runs and its decisions are shown; nothing is written
    ON = "on"

    @classmethod
    def of(cls, word: Any) -> Self:
        """The mode that somebody has written.

        Raises:
            ValueError: there is none like it.
        """
        return cls(word)

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls("on" if value else "off") if isinstance(value, bool) else None
