"""The time of a node's report. No IO."""

from __future__ import annotations

from koord_model.times import from_rfc3339


def report_time(updated: str | None, heard: float) -> float:
    """The time that the node's clock said, in seconds since the epoch; at most ``heard``.

    It is ``heard``, when the report came, where it says none.
    """
    try:
        return min(from_rfc3339(updated or ""), heard)
    except ValueError:
        return heard
