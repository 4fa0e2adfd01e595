from __future__ import annotations

import pytest
from koord_model.label_selector import parse, parse_text

_LABELS = {"tier": "web", "zone": "a"}


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    more = {"values": [*values]} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **more}]}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"tier": "web"}}, True),
        ({"matchLabels": {"tier": "db"}}, False),
        ({"matchLabels": {"tier": "web", "more": ""}}, False),
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("absent", "NotIn", "a"), True),
        (expression("absent", "In", "a"), False),
        (expression("tier", "Exists"), True),
        (expression("absent", "Exists"), False),
        (expression("tier", "DoesNotExist"), False),
        (expression("absent", "DoesNotExist"), True),
        ({"matchLabels": {"tier": "web"}, **expression("zone", "In", "b")}, False),
    ],
)
def test_matches_as_kubernetes_does(selector: object, matches: bool) -> None:
    assert parse(selector, "selector").matches(_LABELS) is matches


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "selector is 7; expected an object"),
        ({"matchlabels": {}}, "selector.matchlabels is unknown; expected"),
        ({"matchLabels": {"a": 1}}, "selector.matchLabels.a is 1; expected text"),
        ({"matchExpressions": [{"operator": "In"}]}, "expected an object with a key"),
        (expression("a", "in"), 'operator is "in"; expected one'),
        (expression("a", "In"), "operator In takes values"),
        (expression("a", "Exists", "b"), "operator Exists takes no values"),
    ],
)
def test_says_what_is_wrong(given: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"^selector") as caught:
        parse(given, "selector")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("tier=web", True),
        ("tier == web, zone!=b", True),
        ("tier!=web", False),
        ("zone in (a, b),tier", True),
        ("zone notin (a,b)", False),
        ("absent notin (a)", True),
        ("!absent", True),
        ("!tier", False),
        ("absent", False),
    ],
)
def test_a_selector_written_as_text(text: str, matches: bool) -> None:
    assert parse_text(text, "selector").matches(_LABELS) is matches


def test_a_text_that_is_no_selector() -> None:
    with pytest.raises(ValueError, match=r'^selector has "a in b"; expected terms such as'):
        parse_text("c=d,a in b", "selector")
