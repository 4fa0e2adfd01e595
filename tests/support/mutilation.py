"""Documents with a few places replaced by something else, or gone."""

from __future__ import annotations

import copy
import random
from typing import Any

Object = dict[str, Any]


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree, as what it is in and where there."""
    found: list[tuple[Any, Any]] = []
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for at, value in inner:
        found.append((tree, at))
        if isinstance(value, dict | list):
            found.extend(_places(value))
    return found


def mutilated(tree: Object, source: random.Random, parts: list[Any]) -> Object:
    """A copy with a few places replaced by something else, or gone."""
    tree = copy.deepcopy(tree)
    for part in parts:
        places = _places(tree)
        if not places:
            break
        inside, at = source.choice(places)
        if source.random() < 0.2:
            del inside[at]
        else:
            inside[at] = copy.deepcopy(part)
    return tree
