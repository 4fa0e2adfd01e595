import pytest
from koord_model.keys import LABEL_QOS
from koord_model.priority import (
    BANDS,
    LABEL_PRIORITY_CLASS,
    PriorityClass,
    priority_class,
    priority_class_or_default,
)
from koord_model.qos import KubeQoS

PROD, MID, BATCH, FREE, NONE = PriorityClass


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        *((10000, NONE), (9999, PROD), (9000, PROD), (8999, NONE)),
        *((8000, NONE), (7999, MID), (7000, MID), (6999, NONE)),
        *((6000, NONE), (5999, BATCH), (5000, BATCH), (4999, NONE)),
        *((4000, NONE), (3999, FREE), (3000, FREE), (2999, NONE)),
        *((0, NONE), (-1, NONE), (2_000_001_000, NONE), (None, NONE)),
    ],
)
def test_bands_of_priority(priority: int | None, expected: PriorityClass) -> None:
    assert priority_class({}, priority) is expected


@pytest.mark.parametrize("name", list(BANDS))
def test_the_label_wins_over_the_priority(name: PriorityClass) -> None:
    assert priority_class({LABEL_PRIORITY_CLASS: name.value}, 9500) is name


@pytest.mark.parametrize("word", ["", "prod", "KOORD-PROD", "system-node-critical"])
def test_an_unknown_label_hides_the_priority(word: str) -> None:
    assert priority_class({LABEL_PRIORITY_CLASS: word}, 9500) is NONE


@pytest.mark.parametrize(
    ("labels", "priority", "kube", "expected"),
    [
        ({}, None, KubeQoS.GUARANTEED, PROD),
        ({}, 0, KubeQoS.BURSTABLE, PROD),
        ({}, None, KubeQoS.BEST_EFFORT, BATCH),
        ({}, 7500, KubeQoS.BEST_EFFORT, MID),
        ({LABEL_QOS: "BE"}, None, KubeQoS.GUARANTEED, BATCH),
        ({LABEL_QOS: "LS"}, None, KubeQoS.BEST_EFFORT, PROD),
        ({LABEL_QOS: "LSR"}, None, KubeQoS.BEST_EFFORT, PROD),
        ({LABEL_QOS: "LSE"}, 8500, KubeQoS.BEST_EFFORT, PROD),
        ({LABEL_QOS: "SYSTEM"}, None, KubeQoS.BEST_EFFORT, PROD),
        ({LABEL_QOS: "LS"}, 5500, KubeQoS.BURSTABLE, BATCH),
        ({LABEL_QOS: "GOLD"}, None, KubeQoS.BEST_EFFORT, BATCH),
        ({LABEL_PRIORITY_CLASS: "gold", LABEL_QOS: "BE"}, 9500, KubeQoS.BURSTABLE, BATCH),
        ({LABEL_PRIORITY_CLASS: "koord-free", LABEL_QOS: "BE"}, 9500, KubeQoS.BURSTABLE, FREE),
    ],
)
def test_what_the_quality_class_implies(
    labels: dict[str, str], priority: int | None, kube: KubeQoS, expected: PriorityClass
) -> None:
    assert priority_class_or_default(labels, priority, kube) is expected
