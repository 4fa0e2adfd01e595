import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import ANNOTATION_RESCTRL, LABEL_QOS
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.resctrl import (
    CacheWays,
    DomainValues,
    ResctrlAnnotation,
    ResctrlLimits,
    _json,
    class_group,
    class_limits,
    parse,
    resctrl_limits,
)

BEFORE = "pod shop/web-0: annotation node.koordinator.sh/resctrl: "


def pod(text: object, qos: str = "", parent: str = "/kubepods/burstable/podu-1") -> Pod:
    written = text if isinstance(text, str) else json.dumps(text)
    labels = {LABEL_QOS: qos} if qos else {}
    return Pod("web-0", "shop", "u-1", labels, {ANNOTATION_RESCTRL: written}, parent)


def ignored(text: object) -> list[str]:
    limits, lines = resctrl_limits(pod(text))
    assert all(line.startswith(BEFORE) and line.endswith(" (ignored)") for line in lines)
    assert limits is None or limits.mb == 50
    return [line.removeprefix(BEFORE).removesuffix(" (ignored)") for line in lines]


def test_what_koordinators_documents_show() -> None:
    text = {
        "llc": {
            "schemata": {"range": [20, 80]},
            "schemataPerCache": [
                {"cacheID": 0, "range": [20, 50]},
                {"cacheID": 2, "range": [0, 9]},
            ],
        },
        "mb": {"schemata": {"percent": 20}, "schemataPerCache": [{"cacheID": 1, "percent": 40}]},
    }
    limits = ResctrlLimits(
        "koordlet-u-1",
        llc=CacheWays(20, 80),
        mb=20,
        llc_by_domain={0: CacheWays(20, 50), 2: CacheWays(0, 9)},
        mb_by_domain={1: 40},
        fallback=QoSClass.LS,
    )
    assert resctrl_limits(pod(text)) == (limits, ())
    assert str(limits) == (
        "llc 20–80 %, llc of cache 0 20–50 %, llc of cache 2 0–9 %, mb 20 %, mb of cache 1 40 %"
    )


def test_l2_keys_in_any_case_and_a_cache_id_left_out() -> None:
    text = '{"L2": {"SchemataPerCache": [{"Range": [0, 10]}, {"cacheid": 3, "range": [0, 9]}]}}'
    assert parse(text) == ResctrlAnnotation(
        l2=DomainValues(by_domain={0: CacheWays(0, 10), 3: CacheWays(0, 9)})
    )


@pytest.mark.parametrize("text", ["null", "{}", '{"llc": null}', '{"mb": {"schemata": {}}}'])
def test_nothing_asked_for_is_no_limit(text: str) -> None:
    assert resctrl_limits(pod(text)) == (None, ())
    assert resctrl_limits(Pod("web-0", "shop", "u-1")) == (None, ())


@pytest.mark.parametrize(
    ("qos", "parent", "fallback"),
    [
        ("LSE", "", QoSClass.LSE),
        ("BE", "/kubepods/podu-1", QoSClass.BE),
        ("SYSTEM", "", QoSClass.SYSTEM),
        ("", "/kubepods/podu-1", QoSClass.LSR),
        ("", "/kubepods/burstable/podu-1", QoSClass.LS),
        ("", "/kubepods/besteffort/podu-1", QoSClass.BE),
    ],
)
def test_the_class_to_fall_back_on(qos: str, parent: str, fallback: QoSClass) -> None:
    limits, _ = resctrl_limits(pod({"mb": {"schemata": {"percent": 50}}}, qos, parent))
    assert limits is not None
    assert limits.fallback is fallback


@pytest.mark.parametrize("percent", [150, 101, 0, -1, True, 1.5, "50", [50], 10**30])
def test_a_percentage_that_is_none_costs_itself_alone(percent: object) -> None:
    text = {
        "llc": {"schemata": {"range": [0, 50]}},
        "mb": {
            "schemata": {"percent": percent},
            "schemataPerCache": [{"cacheID": 1, "percent": percent}, {"cacheID": 2, "percent": 5}],
        },
    }
    limits, lines = resctrl_limits(pod(text))
    assert limits is not None
    assert (limits.llc, limits.mb, limits.mb_by_domain) == (CacheWays(0, 50), None, {2: 5})
    shown = json.dumps(percent)
    assert lines == (
        f"{BEFORE}mb.schemata.percent is {shown}; expected 1 to 100 (ignored)",
        f"{BEFORE}mb.schemataPerCache[0].percent is {shown}; expected 1 to 100 (ignored)",
    )


@pytest.mark.parametrize(
    "given_range",
    [[0, 101], [-1, 50], [50, 50], [80, 20], [1], [1, 2, 3], "0-50", [True, 50], [0, 1.5], {}],
)
def test_a_range_that_is_none_costs_itself_alone(given_range: object) -> None:
    text = {"llc": {"schemata": {"range": given_range}}, "mb": {"schemata": {"percent": 50}}}
    expected = "expected [start, end] in percent, 0 ≤ start < end ≤ 100"
    assert ignored(text) == [f"llc.schemata.range is {json.dumps(given_range)}; {expected}"]


MB = {"schemata": {"percent": 50}}


def per_cache(*listed: object) -> dict[str, object]:
    return {"mb": {**MB, "schemataPerCache": [*listed]}}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ({"llc": 5, "mb": MB}, "llc is 5; expected an object"),
        ({"llc": {"schemata": []}, "mb": MB}, "llc.schemata is []; expected an object"),
        ({"l3": {}, "mb": MB}, 'key "l3" is not known; expected llc or l2 or mb'),
        ({"mb": {**MB, "schemataPerCache": {}}}, "mb.schemataPerCache is {}; expected a list"),
        (per_cache("x"), 'mb.schemataPerCache[0] is "x"; expected an object'),
        (
            per_cache({"cacheID": -1, "percent": 1}),
            "mb.schemataPerCache[0].cacheID is -1; expected 0 to 2147483647",
        ),
        (per_cache({"cacheID": 1}), "mb.schemataPerCache[0] has no percent"),
        (
            per_cache({"cacheID": 1, "percent": 1}, {"cacheID": 1, "percent": 2}),
            "mb.schemataPerCache names cacheID 1 twice; the first counts",
        ),
        (
            {"mb": {"schemata": {"percent": 50, "range": [0, 50]}}},
            'mb.schemata: key "range" is not known; expected percent',
        ),
    ],
)
def test_a_field_of_another_shape_costs_itself_alone(text: object, line: str) -> None:
    assert ignored(text) == [line]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"', '{"mb": 1e999}', "[" * 100_000])
def test_what_is_no_json_object_is_one_line(text: str) -> None:
    [line] = ignored(text)
    assert "\n" not in line


def test_a_deeply_nested_value_is_shown_as_such() -> None:
    [line] = ignored('{"llc": ' + "[" * 900 + "]" * 900 + "}")
    assert line.endswith("; expected an object")
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert _json(deep) == "nested too deeply"


def test_an_annotation_full_of_errors_does_not_fill_the_log() -> None:
    lines = ignored({f"key{number}": 1 for number in range(1000)})
    assert len(lines) == 11
    assert lines[-1] == "and 990 more fields that cannot be used"


@pytest.mark.parametrize("uid", ["", "../LS", "a/b", "a\nb", ".", "x" * 200])
def test_a_uid_that_names_no_directory_has_no_group(uid: str) -> None:
    limits, [line] = resctrl_limits(replace(pod({"mb": MB}), uid=uid))
    assert limits is None
    assert "names no group" in line
    assert "\n" not in line


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_is_an_exception(text: str) -> None:
    limits, lines = resctrl_limits(pod(text))
    assert limits is None
    assert all(line.startswith(BEFORE) for line in lines)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (6, 5), (0, 101)])
def test_ways_are_a_range(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="is not a valid range"):
        CacheWays(start, end)


def test_shared_groups_of_classes() -> None:
    names = {qos: class_group(qos) for qos in QoSClass}
    assert names == {
        QoSClass.LSE: "LSR",
        QoSClass.LSR: "LSR",
        QoSClass.LS: "LS",
        QoSClass.BE: "BE",
        QoSClass.SYSTEM: "",
        QoSClass.NONE: "",
    }


def test_what_shared_groups_may_use() -> None:
    slo = NodeSLO(
        classes={
            QoSClass.LSR: ClassQoS(resctrl=ResctrlQoS(cat_end=10)),
            QoSClass.LS: ClassQoS(resctrl=ResctrlQoS(True, 80, 20, 101)),
            QoSClass.BE: ClassQoS(resctrl=ResctrlQoS(True, 0, 30, 40)),
        }
    )
    assert class_limits(slo) == {
        "LSR": ResctrlLimits("LSR"),
        "LS": ResctrlLimits("LS"),
        "BE": ResctrlLimits("BE", llc=CacheWays(0, 30), mb=40),
    }
