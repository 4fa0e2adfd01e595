"""JSON of others decoded strictly by a structural schema, and written again. No IO.

What comes out is valid by that schema, and can be read by any client: numbers are finite and
within 64 bits, quantities and durations those that Kubernetes' own readers take. Fields that
the schema does not know are left out, as the API server leaves them out of custom resources.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from operator import call
from typing import Annotated, Any, Literal, Union

import msgspec
from koord_model import duration
from koord_model.excerpt import excerpt

from koord_kube.definitions.schema import DURATION, QUANTITY, Schema

MOST_ITEMS = 8192
"""Of one list or map."""

MOST_DEPTH = 12
"""Levels within an object of whatever kind."""

_QUANTITY = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
"""Narrower than the API server's, which takes exponents that nobody can read or compute with."""

_LONGEST_QUANTITY = 64
_LONGEST_DURATION = 9_000_000_000.0
"""Seconds; Go counts nanoseconds in 64 bits."""

_STEP = re.compile(r"\.(\w+)|\[([0-9]+)\]|(\[\.\.\.\])")
_INT64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_BITS = {"int32": 31, "int64": 63}


class _Duration:
    """A duration like 5m0s; as the next two, a value whose type is not all that is asked of it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if not isinstance(value, str):
            raise ValueError("Expected a duration like 5m0s")  # noqa: TRY004 - input
        known = _seconds if len(value) <= _LONGEST_QUANTITY else duration.seconds
        if known(value) > _LONGEST_DURATION:
            raise ValueError("Expected a duration like 5m0s")
        self.value = value


_seconds = lru_cache(maxsize=1 << 10)(duration.seconds)  # nodes have the same few


class _Quantity:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        _check_quantity(value)
        self.value = value


class _Quantities:
    """Most of a report: checked here in a tenth of the time that a pattern takes."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict) or len(value) > MOST_ITEMS:
            raise ValueError(f"Expected `object` of at most {MOST_ITEMS} fields")
        for part in value.values():
            # In line, and the usual forms first (2 and 500m): a call costs more than all of it.
            usual = type(part) is str and len(part) < 20 and part.isascii()
            if not (usual and part.removesuffix("m").isdigit()):
                _check_quantity(part)
        self.value = value


def _check_quantity(value: Any) -> None:
    if isinstance(value, str):
        fits = len(value) <= _LONGEST_QUANTITY and _QUANTITY.fullmatch(value) is not None
    else:
        fits = type(value) is int and -(1 << 63) <= value < 1 << 63
    if not fits:
        raise ValueError("Expected a quantity like 500m, 2 or 1Gi")


def _anything(levels: int) -> Any:
    """The type of JSON values of at most so many levels."""
    found: Any = Union[None, bool, float, str, _INT64]  # noqa: UP007
    for _ in range(levels):
        found = Union[None, bool, float, str, _INT64, list[found], dict[str, found]]  # noqa: UP007
    return found


class StrictDecoder:
    """Decodes what one schema of ``koord_kube.definitions.schema`` describes."""

    def __init__(self, schema: Schema) -> None:
        self._known, self._any = (
            msgspec.json.Decoder(_type_of(schema, exact), dec_hook=call) for exact in (True, False)
        )
        self._encoder = msgspec.json.Encoder(enc_hook=lambda scalar: scalar.value)

    def normalized(self, given: bytes) -> bytes:
        """The same on one line, in UTF-8, with known fields only.

        Raises:
            ValueError: it does not fit; one line with the field, its value, and what fits.
        """
        try:
            return self._encoder.encode(self._decoded(given))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ValueError(_line(given, str(error))) from None

    def _decoded(self, given: bytes) -> Any:
        try:
            return self._known.decode(given)
        except msgspec.ValidationError:
            found = self._any.decode(given)
            msgspec.json.decode(given)  # numbers are finite in what is left out, too
            return found


def _type_of(schema: Schema, exact: bool) -> Any:
    if "properties" in schema:
        return _struct(schema, exact)
    if schema.get("additionalProperties", {}).get("pattern") == QUANTITY:
        return _Quantities
    if "additionalProperties" in schema:
        values = _type_of(schema["additionalProperties"], exact)
        return Annotated[dict[str, values], msgspec.Meta(max_length=MOST_ITEMS)]  # type: ignore[valid-type]
    if schema.get("pattern") == QUANTITY:
        return _Quantity
    if schema.get("x-kubernetes-int-or-string"):
        return Union[_whole(schema), _text(schema)]  # noqa: UP007  # the parts are values
    match schema["type"]:
        case "array":
            items = _type_of(schema["items"], exact)
            return Annotated[list[items], msgspec.Meta(max_length=MOST_ITEMS)]  # type: ignore[valid-type]
        case "integer":
            return _whole(schema)
        case "string":
            return _text(schema)
        case "object":
            return dict[str, _anything(MOST_DEPTH - 1)]  # type: ignore[misc]
        case other:
            return {"boolean": bool}[other]


def _struct(schema: Schema, exact: bool) -> Any:
    needed = schema.get("required", ())
    fields: list[Any] = []
    for field, value in schema["properties"].items():
        known = _type_of(value, exact)
        if field in needed:
            fields.append((field, known))
        else:
            fields.append((field, Union[known, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007
    return msgspec.defstruct("Fields", fields, kw_only=True, gc=False, forbid_unknown_fields=exact)


def _whole(schema: Schema) -> Any:
    bound = 1 << _BITS[schema.get("format", "int64")]
    low = max(schema.get("minimum", -bound), -bound)
    high = min(schema.get("maximum", bound - 1), bound - 1)
    return Annotated[int, msgspec.Meta(ge=low, le=high)]


def _text(schema: Schema) -> Any:
    pattern = schema.get("pattern")
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema.get("format") == "date-time":
        return Annotated[datetime, msgspec.Meta(tz=True)]
    if pattern == DURATION:
        return _Duration
    more = {"pattern": pattern.removesuffix("$") + r"\Z"} if pattern else {}
    return Annotated[str, msgspec.Meta(max_length=schema.get("maxLength", 1 << 16), **more)]


def _line(given: bytes, error: str) -> str:
    """The decoder's message, with the value beside its path where it can be found."""
    reason, _, path = error.partition(" - at `$")
    path = path.removesuffix("`")
    try:
        value = msgspec.json.decode(given)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return f"{path.removeprefix('.') or excerpt(given.decode(errors='replace'))}: {reason}"
    for field, place, other in _STEP.findall(path):
        if other or not isinstance(value, dict | list):
            break
        value = value[int(place)] if place else value.get(field)  # type: ignore[union-attr]
    shown = excerpt(msgspec.json.encode(value).decode())[1:-1]
    return f"{path.removeprefix('.') or 'the whole'} is {shown}: {reason}"
