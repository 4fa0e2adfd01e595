from __future__ import annotations

from typing import Any

import pytest
from koord_manager.resize.core import policy
from koord_manager.resize.core.policy import ContainerResizePolicy, ResizeMode
from koord_model.keys import CPU, MEMORY

SWAPPED = '{"minAllowed": {"memory": "2Gi"}, "maxAllowed": {"memory": "1Gi"}}'
OURS = {"recommenders": [{"name": "pykoord"}], "updatePolicy": {"updateMode": "Off"}}
OPTED_IN = policy.parse('{"mode": "inPlace", "shadow": false}')


def test_an_annotation() -> None:
    found = policy.parse(
        '{"mode": "inPlace", "containers": {"web": {"minAllowed": {"cpu": "100m"},'
        '"controlledResources": ["cpu"], "controlledValues": "RequestsOnly"}}}'
    )
    assert found.mode is ResizeMode.IN_PLACE
    assert found.shadow
    assert found.of("web") == ContainerResizePolicy({CPU: 100}, {}, frozenset({CPU}), limits=False)
    assert found.of("another") == ContainerResizePolicy()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("inPlace", "malformed"),
        ('{"mode": "on"}', "'on' - at `$.mode`"),
        ('{"mode": "inPlace", "shadw": false}', "unknown field `shadw`"),
        ('{"mode": "inPlace", "containers": {"c": {"maxAllowed": {"cpu": "x"}}}}', '"cpu" "x"'),
        (
            f'{{"mode": "inPlace", "containers": {{"c": {SWAPPED}}}}}',
            'containers.c: memory has minAllowed and maxAllowed "2Gi" and "1Gi"',
        ),
    ],
)
def test_a_bad_annotation_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"pykoord-resize: .* \(no pod is resized\)") as caught:
        policy.parse(text)
    assert reason in str(caught.value)


def test_a_vpa_has_bounds_and_its_annotation_the_rest() -> None:
    containers: list[dict[str, Any]] = [
        {"containerName": "*", "maxAllowed": {"memory": "1Gi"}},
        {"containerName": "log", "mode": "Off"},
    ]
    spec = {**OURS, "resourcePolicy": {"containerPolicies": containers}}
    found = policy.of_vpa(spec, OPTED_IN)
    assert (found.mode, found.shadow) == (ResizeMode.IN_PLACE, False)
    assert found.of("web").maximum == {MEMORY: 1 << 30}
    assert found.of("log").resources == frozenset()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"recommenders": [{"name": "default"}]}, 'does not name "pykoord"'),
        ({"updatePolicy": {"updateMode": "Recreate"}}, 'updateMode is "Recreate"'),
        ({"updatePolicy": {}}, 'updateMode is "Auto"'),
    ],
)
def test_a_vpa_that_others_act_on(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        policy.of_vpa({**OURS, **change}, OPTED_IN)
