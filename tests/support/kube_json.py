"""Documents of JSON, copied as a server reads them: faster than a copy of any objects."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


def copied(given: T) -> T:
    """The same document, of which nothing is shared."""
    found: T = msgspec.json.decode(msgspec.json.encode(given))
    return found
