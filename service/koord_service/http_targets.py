"""Paths and queries of requests to others: the only place that writes text into them. No IO.

Names come from users. One that is no single segment of a path ("../nodes?x=") would make a request
about something else, with this program's rights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlencode

from koord_model.excerpt import excerpt

_NO_SEGMENTS = ("", ".", "..")
_SEPARATORS = "/%"
_PLAIN = ":"  # in names of roles and of ports behind a pod's proxy
_is_usual = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*", re.ASCII).fullmatch
"""Almost all names; they are their own encoding, and a tenth of the work."""


def path_segment(what: str, text: str) -> str:
    """A name as one segment of a path, by Kubernetes' rules; all that these permit is encoded.

    Raises:
        ValueError: it cannot be one; one line with the name, which is a ``what``.
    """
    if _is_usual(text):
        return text
    if text in _NO_SEGMENTS or any(separator in text for separator in _SEPARATORS):
        raise ValueError(f'{what} is {excerpt(text)}; expected no ".", "..", "/" or "%"')
    try:
        return quote(text, safe=_PLAIN)
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {excerpt(text)}, which is not text") from None


def with_query(path: str, query: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """A path and its query, as they are sent."""
    if not query:
        return path
    pairs = list(query.items() if isinstance(query, Mapping) else query)
    return f"{path}?{urlencode(pairs)}" if pairs else path
