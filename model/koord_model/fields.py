"""JSON objects that others wrote, read field by field: a bad one costs only itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from koord_model import cpuset
from koord_model.excerpt import excerpt
from koord_model.quantity import milli

T = TypeVar("T")
U = TypeVar("U")
N = TypeVar("N", bound=int | None)
B = TypeVar("B", bound=bool | None)
E = TypeVar("E", bound=StrEnum)

_LONGEST_NAME = 64

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Fields:
    """One JSON object; each method takes one field, or its default if it cannot be used.

    A field that is absent or ``null`` has its default in silence. One of a wrong type
    or out of range has it with a line in ``ignored``: "NodeSLO a.b is 7; expected 0 to
    2 (default 1 kept)". The list is that of all objects read from one document.
    """

    def __init__(self, given: object, where: str, ignored: list[str], path: str = "") -> None:
        self.ignored = ignored
        self._where = where
        self._path = path
        self._given: Mapping[str, object] = {}
        if isinstance(given, Mapping):
            self._given = given
        elif given is not None:
            self._refuse(path, given, "an object", "defaults kept")

    def of(self, name: str) -> Fields:
        """The object in a field; an empty one where there is none."""
        return Fields(self._given.get(name), self._where, self.ignored, self._at(name))

    def objects(self, name: str, most: int | None = None) -> Iterator[Fields]:
        """The objects of the list in a field; what is no object is passed over.

        ``most`` is how long the list may be: what is beyond is left out.
        """
        listed = self._given.get(name)
        if listed is None:
            return
        if not isinstance(listed, list):
            self._refuse(self._at(name), listed, "a list", "left out")
            return
        if most is not None and len(listed) > most:
            self._refuse(self._at(name), listed, f"{most} or fewer", "the rest left out")
        for index, given in enumerate(listed[:most]):
            path = f"{self._at(name)}[{index}]"
            if isinstance(given, Mapping):
                yield Fields(given, self._where, self.ignored, path)
            else:
                self._refuse(path, given, "an object", "left out")

    def has(self, name: str) -> bool:
        """True if a field is there, whatever is in it."""
        return self._given.get(name) is not None

    def take(
        self,
        name: str,
        default: T,
        accept: Callable[[object], U],
        expected: str,
        otherwise: str = "default kept",
    ) -> T | U:
        """Convert a field with ``accept``, which raises ``ValueError`` for unacceptable values."""
        given = self._given.get(name)
        if given is None:
            return default
        try:
            return accept(given)
        except ValueError:
            self._refuse(self._at(name), given, expected, otherwise)
            return default

    def entries(self) -> Iterator[tuple[str, object]]:
        """Every field by its name, as it is; without those that are ``null``."""
        return ((name, given) for name, given in self._given.items() if given is not None)

    def flag(self, name: str, default: B) -> bool | B:
        """A field that is true or false."""
        return self.take(name, default, _flag, "true or false", _kept(default))

    def number(self, name: str, default: N, low: int, high: int) -> int | N:
        """A whole number within bounds."""

        def accept(given: object) -> int:
            return _within(given, low, high)

        return self.take(name, default, accept, f"{low} to {high}", _kept(default))

    def word(self, name: str, default: E) -> E:
        """One of the words of the default's type; "" is as if the field were absent, as in Go."""
        words = type(default)
        expected = " or ".join(word.value for word in words if word.value)

        def accept(given: object) -> E:
            return default if given == "" else words(text(given))

        return self.take(name, default, accept, expected, _kept(default.value))

    def text(self, name: str, default: str = "") -> str:
        """Any text."""
        return self.take(name, default, text, "text", _kept(default))

    def refuse(self, name: str, expected: str, otherwise: str) -> None:
        """Say that a field cannot be used, for a reason only the caller knows."""
        self._refuse(self._at(name), self._given.get(name), expected, otherwise)

    def _at(self, name: str) -> str:
        # Some names are the author's own, and may be anything.
        plain = name if name.isprintable() and 0 < len(name) <= _LONGEST_NAME else excerpt(name)
        return f"{self._path}.{plain}" if self._path else plain

    def _refuse(self, path: str, given: object, expected: str, otherwise: str) -> None:
        named = f"{self._where} {path}" if path else self._where
        self.ignored.append(f"{named} is {shown(given)}; expected {expected} ({otherwise})")


def shown(given: object) -> str:
    """A JSON value for people: short, and on one line."""
    if isinstance(given, str):
        return excerpt(given)
    if isinstance(given, Mapping | list):
        return "an object" if isinstance(given, Mapping) else "a list"
    if given is None:
        return "missing"
    if isinstance(given, int) and given.bit_length() > 128:
        return "a huge number"  # Python refuses to spell the largest ones
    return str(given).lower()[:40]


def text(given: object) -> str:
    """The value, if it is text.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(given, str):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given


def quantity(given: object) -> str | int | float:
    """The value, if it may be a Kubernetes quantity: text or a number.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given


def milli_quantity(given: object) -> int:
    """The value in thousandths, if it is a Kubernetes quantity.

    Raises:
        ValueError: it is none.
    """
    return milli(quantity(given))


def plain_number(given: object) -> float:
    """The value, if it is text of a decimal number.

    Python reads more as numbers than others who read the same text do: blanks around them, digits
    of other scripts.

    Raises:
        ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text(given)):
        raise ValueError(given)
    return float(text(given))


def cpu_list(given: object) -> str:
    """The value, if it is a kernel CPU list; in its shortest form.

    Raises:
        ValueError: it is not.
    """
    return cpuset.render(cpuset.parse(text(given)))


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given


def _within(given: object, low: int, high: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise ValueError(given)
    return given


def _kept(default: object) -> str:
    if default is None:
        return "left unset"
    return f"default {shown(default)} kept" if default != "" else "left empty"
