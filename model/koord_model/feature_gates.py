"""Feature gates as Kubernetes' components take them: ``NAME=true``, each with a default. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model.excerpt import excerpt

_WORDS = {"true": True, "false": False}


def gates_of(
    given: Iterable[str], defaults: Mapping[str, bool]
) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate of ``defaults``, on or off, and those ``given`` that are not among them.

    Raises:
        ValueError: one of them is neither true nor false.
    """
    gates = dict(defaults)
    others = []
    for gate in given:
        name, _, word = gate.partition("=")
        if name in gates:
            if word.lower() not in _WORDS:
                raise ValueError(f"feature gate {name} is {excerpt(word)}; expected true or false")
            gates[name] = _WORDS[word.lower()]
        else:
            others.append(gate)
    return gates, tuple(others)
