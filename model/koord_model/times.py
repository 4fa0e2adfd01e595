"""Times as the API writes them: RFC 3339, in UTC; and seconds since the epoch. No IO."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    """A time since the epoch to the second, as Kubernetes' Time."""
    return _rfc3339(int(seconds))


@lru_cache(maxsize=16)  # thousands of Events a second have the same
def _rfc3339(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def rfc3339_milli(seconds: float) -> str:
    """A time since the epoch to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def rfc3339_micro(seconds: float) -> str:
    """A time since the epoch to the microsecond, as Kubernetes' MicroTime."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def from_rfc3339(text: str) -> float:
    """A time in seconds since the epoch; one without a zone is of UTC.

    Raises:
        ValueError: it is not a time.
    """
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
