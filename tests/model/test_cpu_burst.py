import json
from typing import Any

import pytest
from koord_model.cpu_burst import BurstPolicy, CPUBurst, of_pod, read
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_CPU_BURST
from koord_model.pod import Pod

NODE = CPUBurst(BurstPolicy.CPU_BURST, 500, 200, 60, 70)


def taken(given: object) -> tuple[CPUBurst, list[str]]:
    ignored: list[str] = []
    return read(Fields(given, "NodeSLO", ignored, "burst"), CPUBurst()), ignored


def pod(annotation: str) -> Pod:
    return Pod("web", "shop", "1", annotations={ANNOTATION_CPU_BURST: annotation})


def test_a_nodes_section_is_read() -> None:
    given = {
        "policy": "auto",
        "cpuBurstPercent": 200,
        "cfsQuotaBurstPercent": 150,
        "cfsQuotaBurstPeriodSeconds": 30,
        "sharePoolThresholdPercent": 40,
    }
    assert taken(given) == (CPUBurst(BurstPolicy.AUTO, 200, 150, 30, 40), [])


@pytest.mark.parametrize("given", [None, {}, {"policy": ""}, {"cpuBurstPercent": None}])
def test_what_is_not_said_is_koordinators_default(given: object) -> None:
    assert taken(given) == (CPUBurst(BurstPolicy.NONE, 1000, 300, -1, 50), [])


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("policy", "always", "none or cpuBurstOnly or cfsQuotaBurstOnly or auto (default"),
        ("cpuBurstPercent", 0, "1 to 10000 (default 1000 kept)"),
        ("cpuBurstPercent", 10001, "1 to 10000 (default 1000 kept)"),
        ("cfsQuotaBurstPercent", 99, "100 to 1000000 (default 300 kept)"),
        ("cfsQuotaBurstPeriodSeconds", -2, "-1 to 1000000000 (default -1 kept)"),
        ("sharePoolThresholdPercent", 101, "0 to 100 (default 50 kept)"),
    ],
)
def test_a_bad_field_costs_only_itself(name: str, bad: Any, expected: str) -> None:
    found, [line] = taken({name: bad})
    assert line.startswith(f"NodeSLO burst.{name} is ")
    assert f"; expected {expected}" in line
    assert found == CPUBurst()


class TestPods:
    @pytest.mark.parametrize("annotations", [{}, {ANNOTATION_CPU_BURST: ""}])
    def test_have_the_nodes_without_an_annotation(self, annotations: dict[str, str]) -> None:
        assert of_pod(Pod("web", "shop", "1", annotations=annotations), NODE) == (NODE, ())

    def test_have_their_own_field_by_field(self) -> None:
        own = {"policy": "auto", "cfsQuotaBurstPercent": 400}
        assert of_pod(pod(json.dumps(own)), NODE) == (
            CPUBurst(BurstPolicy.AUTO, 500, 400, 60, 70),
            (),
        )

    def test_cannot_say_how_full_the_nodes_cpus_may_be(self) -> None:
        assert of_pod(pod('{"sharePoolThresholdPercent": 99}'), NODE) == (NODE, ())

    def test_keep_the_nodes_value_where_theirs_is_bad(self) -> None:
        found, [line] = of_pod(pod('{"policy": "auto", "cpuBurstPercent": -3}'), NODE)
        assert found == CPUBurst(BurstPolicy.AUTO, 500, 200, 60, 70)
        assert line == (
            "pod shop/web: annotation koordinator.sh/cpuBurst: cpuBurstPercent is -3; "
            "expected 1 to 10000 (default 500 kept)"
        )

    @pytest.mark.parametrize("text", ["{", "[]", "7", '"auto"', "{\n}}"])
    def test_have_the_nodes_where_the_annotation_is_no_object(self, text: str) -> None:
        found, [line] = of_pod(pod(text), NODE)
        assert found == NODE
        assert line.startswith("pod shop/web: annotation koordinator.sh/cpuBurst: ")
        assert line.endswith(" (ignored)")
        assert "\n" not in line
