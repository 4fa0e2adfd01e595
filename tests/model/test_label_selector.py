from __future__ import annotations

import pytest
from koord_model.label_selector import parse

_LABELS = {"tier": "web", "zone": "a"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"tier": "web"}}, True),
        ({"matchLabels": {"tier": "db"}}, False),
        ({"matchLabels": {"tier": "web", "more": ""}}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]}, True),
        (
            {
                "matchLabels": {"tier": "web"},
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}],
            },
            False,
        ),
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
        ({"matchExpressions": [{"key": "a", "operator": "in"}]}, 'operator is "in"; expected one'),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "operator In takes values"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "operator Exists takes no values",
        ),
    ],
)
def test_says_what_is_wrong(given: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"^selector") as caught:
        parse(given, "selector")
    assert said in str(caught.value)
