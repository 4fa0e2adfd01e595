"""Kubernetes' label selectors (metav1.LabelSelector), read and matched. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from koord_model.fields import shown

Labels = Mapping[str, str]


class Operator(StrEnum):
    """Operator of a requirement on a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_BETWEEN_TERMS = re.compile(r",(?![^(]*\))")
_NAME = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_TERM = re.compile(
    rf"(?P<of>{_NAME})\s+(?P<sets>in|notin)\s*\((?P<values>[-A-Za-z0-9_.,\s]*)\)"
    rf"|(?P<key>{_NAME})\s*(?P<sign>==?|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    rf"|(?P<no>!?)\s*(?P<alone>{_NAME})"
)
_SETS = {"in": Operator.IN, "notin": Operator.NOT_IN}
_WITH_VALUES = {Operator.IN, Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition; a label that is absent is not in any set, as Kubernetes has it."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """True if these labels fulfil it."""
        if self.operator is Operator.IN:
            return self.key in labels and labels[self.key] in self.values
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.DOES_NOT_EXIST:
            return self.key not in labels
        return self.key not in labels or labels[self.key] not in self.values


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements have to hold; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """True if an object with these labels is selected."""
        # In line, as it is asked for each node and pod.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True


def parse(given: object, where: str) -> LabelSelector:
    """The selector in a document; ``where`` names it in messages.

    Raises:
        ValueError: it is none; one line says what of it.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {shown(given)}; expected an object")  # noqa: TRY004 - input
    unknown = given.keys() - {"matchLabels", "matchExpressions"}
    if unknown:
        name = min(map(str, unknown))
        raise ValueError(f"{where}.{name} is unknown; expected matchLabels or matchExpressions")
    labels = given.get("matchLabels") or {}
    expressions = given.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ValueError(f"{where} has matchLabels or matchExpressions of a wrong kind")  # noqa: TRY004 - input
    equal = [_equal(key, value, where) for key, value in labels.items()]
    others = [
        _requirement(expression, f"{where}.matchExpressions[{index}]")
        for index, expression in enumerate(expressions)
    ]
    return LabelSelector((*equal, *others))


def parse_text(text: str, where: str) -> LabelSelector:
    """The selector in a text such as ``a=b,c!=d,e in (f,g),!h``; ``where`` names it.

    Raises:
        ValueError: it is none; one line says what of it.
    """
    terms = [term.strip() for term in _BETWEEN_TERMS.split(text)] if text.strip() else []
    return LabelSelector(tuple(_term(term, where) for term in terms))


def _term(term: str, where: str) -> Requirement:
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(
            f'{where} has "{term}"; expected terms such as a=b, a!=b, a in (b,c), a or !a'
        )
    if found["sets"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["of"], _SETS[found["sets"]], values)
    if found["sign"]:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return Requirement(found["key"], operator, frozenset({found["value"]}))
    operator = Operator.DOES_NOT_EXIST if found["no"] else Operator.EXISTS
    return Requirement(found["alone"], operator)


def _equal(key: object, value: object, where: str) -> Requirement:
    if not isinstance(value, str):
        raise ValueError(f"{where}.matchLabels.{key} is {shown(value)}; expected text")  # noqa: TRY004 - input
    return Requirement(str(key), Operator.IN, frozenset({value}))


def _requirement(given: object, where: str) -> Requirement:
    if not isinstance(given, Mapping) or not isinstance(given.get("key"), str) or not given["key"]:
        raise ValueError(f"{where} is {shown(given)}; expected an object with a key")
    try:
        operator = Operator(str(given.get("operator")))
    except ValueError:
        words = ", ".join(Operator)
        said = shown(given.get("operator"))
        raise ValueError(f"{where}.operator is {said}; expected one of {words}") from None
    values = given.get("values") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{where}.values is {shown(values)}; expected a list of text")
    if bool(values) is not (operator in _WITH_VALUES):
        wanted = "values" if operator in _WITH_VALUES else "no values"
        raise ValueError(f"{where}: operator {operator} takes {wanted}")
    return Requirement(given["key"], operator, frozenset(values))
