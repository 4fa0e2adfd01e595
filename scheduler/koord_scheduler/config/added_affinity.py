"""The node affinity that NodeAffinityArgs add to that of every pod. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from koord_model.names import KEY, VALUE, is_label_key, is_label_value
from koord_model.whole_number import whole_number

from koord_scheduler.arguments.fields import Int32, Strict
from koord_scheduler.arguments.problems import problem

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class _Requirement(Strict, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Term(Strict, frozen=True):
    match_expressions: tuple[_Requirement, ...] = ()
    match_fields: tuple[_Requirement, ...] = ()


class _NodeSelector(Strict, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _PreferredTerm(Strict, frozen=True):
    weight: Int32 = 0
    preference: _Term = _Term()


class AddedAffinity(Strict, frozen=True, omit_defaults=True):
    """Kubernetes' NodeAffinity."""

    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[_PreferredTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )

    def affinity(self) -> dict[str, Any]:
        """The ``affinity`` of a pod that has it."""
        return {"nodeAffinity": msgspec.to_builtins(self)}

    def problems(self, path: str) -> Iterator[str]:
        """Return kube-scheduler's errors in it."""
        required = self.required or _NodeSelector()
        for place, term in enumerate(required.node_selector_terms):
            where = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            yield from _term_problems(term, f"{path}.{where}[{place}]")
        for place, preferred in enumerate(self.preferred):
            if preferred.weight:
                where = f"preferredDuringSchedulingIgnoredDuringExecution[{place}].preference"
                yield from _term_problems(preferred.preference, f"{path}.{where}")


def _term_problems(term: _Term, path: str) -> Iterator[str]:
    for place, match_expression in enumerate(term.match_expressions):
        yield from _label_problems(match_expression, f"{path}.matchExpressions[{place}]")
    for place, match_field in enumerate(term.match_fields):
        at = f"{path}.matchFields[{place}]"
        if match_field.operator not in _FIELD_OPERATORS:
            yield problem(f"{at}.operator", match_field.operator, "In or NotIn")
        elif len(match_field.values) != 1:
            yield problem(f"{at}.values", list(match_field.values), "one value")


def _label_problems(requirement: _Requirement, path: str) -> Iterator[str]:
    if requirement.operator not in _OPERATORS:
        yield problem(f"{path}.operator", requirement.operator, f"one of {', '.join(_OPERATORS)}")
        return
    if not is_label_key(requirement.key):
        yield problem(f"{path}.key", requirement.key, KEY)
    number = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            expected = "" if number else "one or more values"
        case "Exists" | "DoesNotExist":
            expected = "no values" if number else ""
        case _:
            whole = number == 1 and whole_number(requirement.values[0]) is not None
            expected = "" if whole else "one whole number"
    if expected:
        yield problem(f"{path}.values", list(requirement.values), expected)
    for place, value in enumerate(requirement.values):
        if not is_label_value(value):
            yield problem(f"{path}.values[{place}]", value, VALUE)
