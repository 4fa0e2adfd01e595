import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_MEMORY_QOS, LABEL_QOS
from koord_model.memory_qos import RECOMMENDED, MemoryQoS, of_pod, read
from koord_model.pod import Pod
from koord_model.qos import QoSClass

BE = RECOMMENDED[QoSClass.BE]
ENABLED = MemoryQoS(enable=True, min_limit=10, wmark_ratio=90)
EVERYTHING = {
    "enable": True,
    "minLimitPercent": 40,
    "lowLimitPercent": 60,
    "throttlingPercent": 80,
    "wmarkRatio": 70,
    "wmarkScalePermill": 30,
    "wmarkMinAdj": -10,
    "priorityEnable": 1,
    "priority": 12,
    "oomKillGroup": 0,
    "pageCacheEnable": False,
    "pageCacheLimitPercent": 0,
    "pageCacheLimitSize": 4096,
    "pageCacheReclaimSync": True,
}
ALL = MemoryQoS(True, 40, 60, 80, 70, 30, -10, 1, 12, 0, False, 0, 4096, True)


def taken(given: object, usual: MemoryQoS = BE) -> tuple[MemoryQoS, list[str]]:
    ignored: list[str] = []
    return read(Fields(given, "NodeSLO", ignored, "be"), usual), ignored


def pod(annotation: object = None, **labels: str) -> Pod:
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    annotations = {} if annotation is None else {ANNOTATION_MEMORY_QOS: text}
    named = {LABEL_QOS: labels["qos"]} if labels else {}
    return Pod("web", "shop", "1", named, annotations, "kubepods/besteffort/pod1")


def test_everything_is_read() -> None:
    assert taken(EVERYTHING) == (ALL, [])
    usual = asdict(BE)
    assert [name for name, value in asdict(ALL).items() if value == usual[name]] == []


def test_an_enabled_class_has_what_is_recommended() -> None:
    assert taken({"enable": True}) == (MemoryQoS(True, 0, 0, 0, 95, 20, 50), [])


@pytest.mark.parametrize("off", [{}, {"enable": False}, {"enable": None}])
def test_a_class_that_is_not_enabled_is_neutral(off: dict[str, Any]) -> None:
    assert taken({**EVERYTHING, "enable": None, **off}) == (MemoryQoS(), [])


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("enable", "yes", "true or false (default false kept)"),
        ("minLimitPercent", 101, "0 to 100 (default 0 kept)"),
        ("lowLimitPercent", -1, "0 to 100 (default 0 kept)"),
        ("throttlingPercent", "80", "0 to 100 (default 0 kept)"),
        ("wmarkRatio", 101, "0 to 100 (default 95 kept)"),
        ("wmarkScalePermill", 0, "1 to 1000 (default 20 kept)"),
        ("wmarkMinAdj", -26, "-25 to 50 (default 50 kept)"),
        ("priorityEnable", True, "0 to 1 (left unset)"),
        ("priority", 13, "0 to 12 (left unset)"),
        ("oomKillGroup", 2, "0 to 1 (left unset)"),
        ("pageCacheEnable", 1, "true or false (left unset)"),
        ("pageCacheLimitPercent", 150, "0 to 100 (left unset)"),
        ("pageCacheLimitSize", 1 << 63, "0 to 9223372036854775807 (left unset)"),
        ("pageCacheReclaimSync", "no", "true or false (left unset)"),
    ],
)
def test_a_bad_field_costs_only_itself(name: str, bad: Any, expected: str) -> None:
    found, [line] = taken({"enable": True, name: bad})
    assert line.startswith(f"NodeSLO be.{name} is ")
    assert line.endswith(f"; expected {expected}")
    assert found == (MemoryQoS() if name == "enable" else replace(BE, enable=True))


class TestPods:
    def test_have_what_their_class_has_without_an_annotation(self) -> None:
        assert of_pod(pod(), ENABLED) == (ENABLED, ())
        assert of_pod(pod(""), ENABLED) == (ENABLED, ())
        assert of_pod(pod("null"), ENABLED) == (ENABLED, ())

    @pytest.mark.parametrize("own", [{}, {"policy": ""}, {"policy": "default"}])
    def test_have_it_by_policy_default_too(self, own: dict[str, str]) -> None:
        assert of_pod(pod(own), ENABLED) == (ENABLED, ())
        assert of_pod(pod(own), MemoryQoS()) == (MemoryQoS(), ())

    def test_have_nothing_by_policy_none_whatever_else_they_say(self) -> None:
        own = {"policy": "none", "minLimitPercent": 100}
        assert of_pod(pod(own), ENABLED) == (MemoryQoS(), ())

    @pytest.mark.parametrize(
        ("labels", "adj"), [({}, 50), ({"qos": "LS"}, -25), ({"qos": "LSE"}, -25)]
    )
    def test_have_what_is_recommended_by_policy_auto_though_their_class_has_none(
        self, labels: dict[str, str], adj: int
    ) -> None:
        found, ignored = of_pod(pod({"policy": "auto", "lowLimitPercent": 80}, **labels), ENABLED)
        assert ignored == ()
        assert found == MemoryQoS(
            True, low_limit=80, wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=adj
        )

    def test_of_class_system_have_nothing_recommended(self) -> None:
        found, _ = of_pod(pod({"policy": "auto"}, qos="SYSTEM"), ENABLED)
        assert found == MemoryQoS(enable=True)

    def test_lay_their_own_over_what_the_class_has(self) -> None:
        found, ignored = of_pod(pod({"minLimitPercent": 50, "priority": 3}), ENABLED)
        assert (found, ignored) == (replace(ENABLED, min_limit=50, priority=3), ())

    def test_get_what_they_ask_for_where_the_class_is_not_enabled(self) -> None:
        found, _ = of_pod(pod({"minLimitPercent": 50}), MemoryQoS())
        assert found == MemoryQoS(enable=True, min_limit=50)

    def test_keep_what_the_class_has_where_theirs_is_bad(self) -> None:
        found, [line] = of_pod(pod({"minLimitPercent": 500, "lowLimitPercent": 20}), ENABLED)
        assert found == replace(ENABLED, low_limit=20)
        assert line == (
            "pod shop/web: annotation koordinator.sh/memoryQOS: minLimitPercent is 500; "
            "expected 0 to 100 (default 10 kept)"
        )

    def test_have_what_the_class_has_by_a_policy_nobody_knows(self) -> None:
        found, [line] = of_pod(pod({"policy": "best"}), ENABLED)
        assert found == ENABLED
        assert 'policy is "best"; expected default or none or auto' in line

    @pytest.mark.parametrize("text", ["{", "[]", "7", '{"minLimitPercent": 1'])
    def test_have_what_the_class_has_where_the_annotation_is_no_object(self, text: str) -> None:
        found, [line] = of_pod(pod(text), ENABLED)
        assert found == ENABLED
        assert line.startswith("pod shop/web: annotation koordinator.sh/memoryQOS: ")
