"""Documents: keys of fields in camelCase, names of things as they are, and nothing unprintable."""

from __future__ import annotations

import json

import msgspec
import yaml
from koordctl.output.documents import as_json, as_yaml, from_page, from_value


class Measured(msgspec.Struct):
    psi_cpu: float | None = None


class Page(msgspec.Struct):
    by_metric: dict[str, Measured] = {}
    pods: list[Measured] = []
    best: Measured | None = None


def test_fields_are_renamed_and_names_are_not() -> None:
    page = {
        "by_metric": {"node_cpu": {"psi_cpu": 1.0}},
        "pods": [{"psi_cpu": None}],
        "best": {"psi_cpu": 2.0},
        "said_newly": {"much_more": 1, "a/b_c": 2},
    }
    assert from_page(json.dumps(page).encode(), Page) == {
        "byMetric": {"node_cpu": {"psiCpu": 1.0}},
        "pods": [{"psiCpu": None}],
        "best": {"psiCpu": 2.0},
        "saidNewly": {"muchMore": 1, "a/b_c": 2},
    }
    assert from_value([Measured(3.0)]) == [{"psiCpu": 3.0}]


def test_both_texts_say_the_same_and_drive_no_terminal() -> None:
    document = {"name": "a\x1b[2J‮x", "same": [[1], [1]], "umlaut": "ü"}
    for text, back in ((as_json(document), json.loads), (as_yaml(document), yaml.safe_load)):
        assert back(text) == document
        assert all(letter.isprintable() or letter == "\n" for letter in text)
    shared = {"b": 1}
    assert "&id" not in as_yaml({"x": shared, "y": shared})
