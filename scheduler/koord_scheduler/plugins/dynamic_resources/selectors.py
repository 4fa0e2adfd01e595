"""CEL selectors of devices. No IO.

The expressions were checked by the API server. The library stops an expression after ten
thousand iterations, and its regular expressions take linear time, so none can hold up the
scheduler. Quantities and versions are strings with a mark in front, in which CEL compares them
rightly for equality: it has no types of ours.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings
from koord_model.quantity import nano

from koord_scheduler.plugins.dynamic_resources.objects import DeviceAttribute, DRADevice

_QUANTITY, _VERSION = "\x01quantity:", "\x01semver:"
_COMPILED = 1024
_DOMAIN = re.compile(r"""(?:attributes|capacity)\s*\[\s*\??\s*["']([^"']+)["']""")
_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)
_Order = tuple[Any, ...]


class SelectorError(Exception):
    """An expression that cannot be evaluated, or not for this device."""


class Selector:
    """A compiled expression."""

    def __init__(self, expression: str) -> None:
        """Raises ``SelectorError`` if it is not one."""
        try:
            self._compiled = _environment().compile(expression)
        except RuntimeError as error:
            raise SelectorError(f"CEL compile error: {_first_line(error)}") from None
        self._domains = _DOMAIN.findall(expression)

    def matches(self, driver: str, device: DRADevice) -> bool:
        """True if a device is selected; raises ``SelectorError``."""
        attributes = _by_domain(driver, device.attributes, _attribute)
        capacity = _by_domain(driver, device.capacity, lambda one: quantity(str(one.value)))
        for domain in self._domains:  # one that a device lacks is an empty map
            attributes.setdefault(domain, {})
            capacity.setdefault(domain, {})
        variables = {
            "driver": driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }
        try:
            found = self._compiled.eval(data={"device": variables})
        except RuntimeError as error:
            raise SelectorError(f"CEL runtime error: {_first_line(error)}") from None
        if found.type() == cel.Type.BOOL:
            return bool(found.value())
        raise SelectorError(f"CEL runtime error: {found.value()}")


@lru_cache(_COMPILED)
def compile_selector(expression: str) -> Selector | SelectorError:
    """An expression, or why it is not one; each is compiled once."""
    try:
        return Selector(expression)
    except SelectorError as error:
        return error


def quantity(text: str) -> str:
    """A quantity as selectors have it: equal amounts are equal texts."""
    return f"{_QUANTITY}{nano(text)}"


def _by_domain(
    driver: str, given: Mapping[str, Any], value: Callable[[Any], object]
) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = defaultdict(dict)
    for name, one in given.items():
        domain, slash, plain = name.partition("/")
        found[domain if slash else driver][plain if slash else name] = value(one)
    return dict(found)


def _attribute(device_attribute: DeviceAttribute) -> object:
    if device_attribute.version is not None:
        return _semver(device_attribute.version)
    for value in (device_attribute.integer, device_attribute.boolean, device_attribute.string):
        if value is not None:
            return value
    raise SelectorError("unsupported attribute value")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _semver(text: str) -> str:
    """A version; what is behind "+" does not count."""
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise SelectorError(f"parse semantic version: {text!r} is not one")
    major, minor, patch, before, _ = found.groups()
    return f"{_VERSION}{major}.{minor}.{patch}" + (f"-{before}" if before else "")


def _order(text: str) -> _Order:
    """Return the sort key of a quantity or a version."""
    if text.startswith(_QUANTITY):
        return (int(text.removeprefix(_QUANTITY)),)
    if not text.startswith(_VERSION):
        raise SelectorError("neither a quantity nor a version")
    core, dash, before = text.removeprefix(_VERSION).partition("-")
    parts = tuple(
        (0, int(one), "") if one.isdigit() else (1, 0, one) for one in before.split(".") if one
    )
    return (*map(int, core.split(".")), not dash, parts)


def _part(place: int) -> Callable[[str], int]:
    return lambda text: int(_order(text)[place])


def _compare(one: str, other: str) -> int:
    a, b = _order(one), _order(other)
    return (a > b) - (a < b)


def _amount(text: str) -> Decimal:
    return Decimal(_order(text)[0]).scaleb(-9)


def _as_integer(text: str) -> int:
    if not _is_integer(text):
        raise SelectorError("the quantity is not a whole number")
    return int(_amount(text))


def _is_integer(text: str) -> bool:
    amount = _amount(text)
    return amount == int(amount) and -(2**63) <= amount < 2**63


def _sign(text: str) -> int:
    return _compare(text, quantity("0"))


def _sum(sign: int) -> Callable[[str, Any], str]:
    def add(one: str, other: Any) -> str:
        amount = other * 10**9 if isinstance(other, int) else _order(other)[0]
        return f"{_QUANTITY}{_order(one)[0] + sign * amount}"

    return add


def _is(parse: Callable[[str], str]) -> Callable[[str], bool]:
    def is_one(text: str) -> bool:
        try:
            parse(text)
        except (SelectorError, ValueError):
            return False
        return True

    return is_one


@lru_cache(1)
def _environment() -> cel.Env:
    text, whole, truth = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL
    functions: list[cel.FunctionDecl] = []

    def declare(
        name: str,
        result: cel.Type,
        implementation: Callable[..., Any],
        *parameters: list[cel.Type],
        member: bool = True,
    ) -> None:
        overloads = [
            cel.Overload(
                f"{name}_{place}",
                return_type=result,
                parameters=given,
                is_member=member,
                impl=implementation,
            )
            for place, given in enumerate(parameters)
        ]
        functions.append(cel.FunctionDecl(name, overloads))

    declare("quantity", text, quantity, [text], member=False)
    declare("isQuantity", truth, _is(quantity), [text], member=False)
    declare("semver", text, _semver, [text], member=False)
    declare("isSemver", truth, _is(_semver), [text], member=False)
    declare("compareTo", whole, _compare, [text, text])
    declare("isGreaterThan", truth, lambda a, b: _compare(a, b) > 0, [text, text])
    declare("isLessThan", truth, lambda a, b: _compare(a, b) < 0, [text, text])
    for place, part in enumerate(("major", "minor", "patch")):
        declare(part, whole, _part(place), [text])
    declare("sign", whole, _sign, [text])
    declare("isInteger", truth, _is_integer, [text])
    declare("asInteger", whole, _as_integer, [text])
    declare("asApproximateFloat", cel.Type.DOUBLE, lambda a: float(_amount(a)), [text])
    declare("add", text, _sum(1), [text, text], [text, whole])
    declare("sub", text, _sum(-1), [text, text], [text, whole])
    return cel.NewEnv(
        variables={"device": cel.Type.Map(text, cel.Type.DYN)},
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
        ],
        functions=functions,
    )
