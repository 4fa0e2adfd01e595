from typing import Any

import pytest
from koord_model.fields import Fields
from koord_model.system_strategy import SystemStrategy, read


def taken(given: object) -> tuple[SystemStrategy, list[str]]:
    ignored: list[str] = []
    return read(Fields(given, "NodeSLO", ignored, "system")), ignored


def test_everything_is_read() -> None:
    given = {
        "minFreeKbytesFactor": 100,
        "watermarkScaleFactor": 150,
        "memcgReapBackGround": 1,
        "schedGroupIdentityEnabled": 0,
        "schedIdleSaverWmark": 500_000,
        "pageCacheLimitEnabled": 1,
        "schedFeatures": {"ID_EXPELLER_SHARE_CORE": False, "NEXT_BUDDY": True, "TTWU_QUEUE": None},
        "totalNetworkBandwidth": "10G",
    }
    features = {"ID_EXPELLER_SHARE_CORE": False, "NEXT_BUDDY": True}
    assert taken(given) == (SystemStrategy(100, 150, 1, 0, 500_000, 1, features), [])


@pytest.mark.parametrize("given", [None, {}, {"schedFeatures": None}, {"schedFeatures": {}}])
def test_what_is_not_said_is_left_alone(given: object) -> None:
    assert taken(given) == (SystemStrategy(), [])


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("minFreeKbytesFactor", 0, "1 to 10000 (left unset)"),
        ("minFreeKbytesFactor", "100", "1 to 10000 (left unset)"),
        ("watermarkScaleFactor", 0, "1 to 2147483647 (left unset)"),
        ("memcgReapBackGround", 2, "0 to 1 (left unset)"),
        ("schedGroupIdentityEnabled", True, "0 to 1 (left unset)"),
        ("schedIdleSaverWmark", -1, "0 to 2147483647 (left unset)"),
        ("pageCacheLimitEnabled", 1.5, "0 to 1 (left unset)"),
        ("schedFeatures", ["NEXT_BUDDY"], "an object (defaults kept)"),
    ],
)
def test_a_bad_field_costs_only_itself(name: str, bad: Any, expected: str) -> None:
    good = {"watermarkScaleFactor": 150} if name != "watermarkScaleFactor" else {}
    found, [line] = taken({**good, name: bad})
    assert line.startswith(f"NodeSLO system.{name} is ")
    assert line.endswith(f"; expected {expected}")
    assert found == SystemStrategy(watermark_scale_factor=good.get("watermarkScaleFactor"))


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("NO_NEXT_BUDDY", True, "is true; expected a feature's name"),
        ("next_buddy", True, "is true; expected a feature's name"),
        ("A\nB", True, "is true; expected a feature's name"),
        ("", True, "is true; expected a feature's name"),
        ("NEXT_BUDDY", 1, "is 1; expected true or false (left unset)"),
    ],
)
def test_a_bad_feature_costs_only_itself(name: str, value: object, line: str) -> None:
    found, [told] = taken({"schedFeatures": {name: value, "TTWU_QUEUE": False}})
    assert line in told
    assert "\n" not in told
    assert found.sched_features == {"TTWU_QUEUE": False}
