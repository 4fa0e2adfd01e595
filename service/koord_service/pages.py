"""Pages served over HTTP: the query's parameters and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from koord_model import duration

from koord_service.program_metrics import program_metrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_PARAMETERS = 64


@dataclass(frozen=True, slots=True)
class StatusPage:
    """One answer; ``headers`` are those beside its type and length."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class QueryError(ValueError):
    """A wrong parameter; the answer is ``status`` with the message, one line."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request, each given once. All methods raise QueryError.

    ``accept`` is the request's header of that name.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""

    @classmethod
    def parse(cls, text: str, accept: str = "") -> Query:
        """The part of a URL after the "?"."""
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_PARAMETERS)
        except ValueError:
            raise QueryError(f"more than {_PARAMETERS} parameters") from None
        values = dict(pairs)
        if len(values) < len(pairs):
            twice = next(name for name in values if [key for key, _ in pairs].count(name) > 1)
            raise QueryError(f'parameter "{twice}" is given twice')
        return cls(values, accept)

    def accepts(self, content_type: str) -> bool:
        """True if the client asks for this very type; "*/*" asks for none."""
        types = (part.partition(";")[0].strip() for part in self.accept.lower().split(","))
        return content_type in types

    def choice(self, name: str, choices: Collection[str], default: str = "") -> str:
        """One of a few words; without a ``default`` it must be given."""
        value = self.values.get(name, default)
        if value not in choices:
            given = (
                f'parameter "{name}" is "{value}"' if value else f'parameter "{name}" is missing'
            )
            raise QueryError(f"{given}; expected one of {', '.join(choices)}")
        return value

    def pod(self) -> str:
        """The parameter "pod", which must be given: namespace/name."""
        pod = self.values.get("pod", "")
        namespace, _, name = pod.partition("/")
        if not namespace or not name or "/" in name:
            raise QueryError(f'parameter "pod" is "{pod}"; expected NAMESPACE/NAME')
        return pod

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        if name not in self.values:
            return default
        text = self.values[name]
        # As long as the greatest: int() takes its time over thousands of digits.
        plain = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not plain or not least <= int(text) <= most:
            raise QueryError(f'parameter "{name}" is "{text}"; expected {least} to {most}')
        return int(text)

    def seconds(self, name: str, default: float, least: float, most: float) -> float:
        """A time such as "90", "90s", "5m" or "1h"."""
        if name not in self.values:
            return default
        text = self.values[name]
        seconds = _seconds(text)
        if not least <= seconds <= most:
            raise QueryError(
                f'parameter "{name}" is "{text}"; '
                f"expected {least:g} to {most:g} seconds, written like 90s, 5m or 1h"
            )
        return seconds


def _seconds(text: str) -> float:
    """A plain number is of seconds too; negative if it is not a time."""
    try:
        return duration.seconds_or_number(text)
    except ValueError:
        return -1.0


MakePage = Callable[[Query], StatusPage]
"""Makes the page of a path. Raises QueryError for a wrong parameter."""
Update = Callable[[str], StatusPage]
"""Takes the body of a PUT, and says what became of it. Raises QueryError."""


def json_page(value: object, status: int = 200) -> StatusPage:
    """``value`` as JSON; NaN and infinities raise ValueError, since JSON has none."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return StatusPage(f"{text}\n".encode(), "application/json", status)


def metrics_page(registry: CollectorRegistry, program: str) -> StatusPage:
    """The metrics of ``program``, a command, in Prometheus' text format, with those all have."""
    # Here, so that programs without metrics need not have the client installed.
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    body = generate_latest(registry) + program_metrics(program).encode()
    return StatusPage(body, CONTENT_TYPE_LATEST)
