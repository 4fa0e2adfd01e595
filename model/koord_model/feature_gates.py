"""Feature gates as Kubernetes' components take them: ``NAME=true``, each with a default. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def gates_of(
    given: Iterable[str], defaults: Mapping[str, bool]
) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate of ``defaults``, on or off, and those ``given`` that are not among them."""
    gates = dict(defaults)
    others = []
    for gate in given:
        name, _, word = gate.partition("=")
        if name in gates:
            gates[name] = word.lower() == "true"
        else:
            others.append(gate)
    return gates, tuple(others)
