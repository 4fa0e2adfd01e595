import pytest
from koord_model.keys import LABEL_QOS
from koord_model.qos import (
    KubeQoS,
    QoSClass,
    kube_qos,
    qos_class,
    qos_class_or_default,
    unknown_word,
)


@pytest.mark.parametrize("word", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_label_names_the_class(word: str) -> None:
    assert qos_class({LABEL_QOS: word}) == QoSClass(word)


@pytest.mark.parametrize("labels", [{}, {LABEL_QOS: ""}, {LABEL_QOS: "be"}, {LABEL_QOS: "GOLD"}])
def test_anything_else_is_no_class(labels: dict[str, str]) -> None:
    assert qos_class(labels) is QoSClass.NONE


@pytest.mark.parametrize("labels", [{}, {LABEL_QOS: ""}, {LABEL_QOS: "LSE"}, {"other": "x"}])
def test_a_known_word_is_no_problem(labels: dict[str, str]) -> None:
    assert unknown_word(labels) == ""


def test_an_unknown_word_is_reported_with_those_there_are() -> None:
    assert unknown_word({LABEL_QOS: "GOLD"}) == (
        'label koordinator.sh/qosClass is "GOLD"; expected one of LSE, LSR, LS, BE, SYSTEM '
        "(counts as none)"
    )


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice", "BestEffort"),
        ("/kubepods/burstable/pod1", "Burstable"),
        ("/kubepods.slice/kubepods-pod1.slice", "Guaranteed"),
        ("", "Guaranteed"),
    ],
)
def test_kubernetes_class_is_read_off_the_cgroup(parent: str, expected: str) -> None:
    assert kube_qos(parent) == KubeQoS(expected)


@pytest.mark.parametrize(
    ("word", "kube", "expected"),
    [
        ("BE", KubeQoS.GUARANTEED, QoSClass.BE),
        ("", KubeQoS.GUARANTEED, QoSClass.LSR),
        ("gold", KubeQoS.BURSTABLE, QoSClass.LS),
        ("", KubeQoS.BEST_EFFORT, QoSClass.BE),
    ],
)
def test_without_a_label_kubernetes_class_stands_for_one(
    word: str, kube: KubeQoS, expected: QoSClass
) -> None:
    assert qos_class_or_default({LABEL_QOS: word}, kube) is expected
