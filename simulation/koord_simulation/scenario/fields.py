"""Values of a scenario file, read one by one: who cannot be read is named by its place. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from koord_model import duration
from koord_model.demand import Amounts
from koord_model.fields import shown
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU
from koord_model.quantity import milli, whole

from koord_simulation.node_model.curves import (
    Constant,
    DemandCurve,
    Noise,
    Ramp,
    Sine,
    Spikes,
    Sum,
)

T = TypeVar("T")
Read = Callable[[object], object]

_AMOUNT_NAMES = {"batch-cpu": BATCH_CPU, "batch-memory": BATCH_MEMORY}


def mapping(given: object) -> Mapping[str, object]:
    """An object of names.

    Raises:
        ValueError: it is none; so do all others here.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{shown(given)}; expected names with values")  # noqa: TRY004
    return {str(key): value for key, value in given.items()}


def listed(given: object) -> Sequence[object]:
    """A list."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ValueError(f"{shown(given)}; expected a list")  # noqa: TRY004
    return given


def read(given: object, table: Mapping[str, Read]) -> dict[str, object]:
    """The fields of an object, by a table of how each is read."""
    found = {}
    for name, value in mapping(given).items():
        if name not in table:
            raise ValueError(f"{shown(name)} is not a field; there are {', '.join(table)}")
        try:
            found[name] = table[name](value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def text(given: object) -> str:
    """Any text; numbers as they are written ("cpus: 3")."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise ValueError(f"{shown(given)}; expected text")  # noqa: TRY004
    return str(given)


def texts(given: object) -> dict[str, str]:
    """Labels, annotations."""
    return {name: text(value) for name, value in mapping(given).items()}


def flag(given: object) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise ValueError(f"{shown(given)}; expected true or false")  # noqa: TRY004
    return given


def number(given: object) -> float:
    """A number without a unit."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{shown(given)}; expected a number")  # noqa: TRY004
    return float(given)


def count(given: object) -> int:
    """A whole number."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{shown(given)}; expected a whole number")  # noqa: TRY004
    return given


def size(given: object) -> int:
    """Bytes: 4Gi."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"{shown(given)}; expected bytes like 4Gi")  # noqa: TRY004
    return whole(given)


def seconds(given: object) -> float:
    """A duration: 90, 90s, 1h30m."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"{shown(given)}; expected a duration like 1h30m")  # noqa: TRY004
    return float(given) if isinstance(given, int | float) else duration.seconds_or_number(given)


def amounts(given: object) -> Amounts:
    """Kubernetes quantities by resource; "batch-cpu" is short for its long name."""
    found = {}
    for name, value in mapping(given).items():
        full = _AMOUNT_NAMES.get(name, name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{name} is {shown(value)}; expected a quantity")  # noqa: TRY004
        # Batch CPU is counted in millicores, as its resource is.
        found[full] = milli(value) if full == CPU else whole(value)
    return found


def cores(given: object) -> DemandCurve:
    """A curve of cores."""
    return _curve(given, number)


def memory(given: object) -> DemandCurve:
    """A curve of bytes."""
    return _curve(given, size)


def _curve(given: object, level: Callable[[object], float]) -> DemandCurve:
    """A level, one curve by its name ("sine: {mean: 2, swing: 1}"), or a list of both, added."""
    if isinstance(given, list):
        return Sum(tuple(_curve(part, level) for part in given))
    if not isinstance(given, Mapping):
        return Constant(level(given))
    return Sum(tuple(_shapes(given, level)))


def _shapes(
    given: Mapping[object, object], level: Callable[[object], float]
) -> Iterator[DemandCurve]:
    tables: dict[str, tuple[Callable[..., DemandCurve], dict[str, Read]]] = {
        "constant": (Constant, {"level": level}),
        "sine": (
            Sine,
            {"mean": level, "swing": level, "period": seconds, "peak_at": seconds},
        ),
        "ramp": (Ramp, {"low": level, "high": level, "start": seconds, "end": seconds}),
        "spikes": (
            Spikes,
            {"height": level, "every": seconds, "lasts": seconds, "first": seconds, "once": flag},
        ),
        "noise": (Noise, {"size": level, "lasts": seconds}),
    }
    for name, fields in given.items():
        if name not in tables:
            raise ValueError(f"{shown(name)} is not a curve; there are {', '.join(tables)}")
        make, table = tables[str(name)]
        values = (
            {"level": level(fields)} if name == "constant" else _of_curve(fields, str(name), table)
        )
        try:
            yield make(**values)
        except TypeError:
            raise ValueError(f"{name} wants {', '.join(table)}") from None


def _of_curve(given: object, name: str, table: Mapping[str, Read]) -> dict[str, object]:
    try:
        return read(given, table)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
