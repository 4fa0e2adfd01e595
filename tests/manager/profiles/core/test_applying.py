from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_manager.profiles.core.applying import POD, RESERVATION, applied
from koord_manager.profiles.core.document import read

Object = dict[str, Any]

CLASSES: dict[str, Object] = {
    "koord-batch": {"value": 5500, "preemptionPolicy": "Never"},
    "koord-mid": {"value": 7500},
    "odd": {},
}


def with_profile(pod: Object, **spec: object) -> Object:
    before = copy.deepcopy(pod)
    after = applied(read("p", {"spec": spec}), pod, POD, CLASSES)
    assert pod == before
    assert applied(read("p", {"spec": spec}), after, POD, CLASSES) == after
    return after


@pytest.mark.parametrize(
    ("name", "why"), [("gone", "is not in the cluster"), ("odd", "has no value")]
)
def test_a_priority_class_that_is_not_there_is_said(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        with_profile({"spec": {"containers": []}}, priorityClassName=name)
    assert str(raised.value) == (
        f'ClusterColocationProfile "p" spec.priorityClassName is "{name}", which {why}; '
        "create that PriorityClass, or mend the profile"
    )


def test_a_patch_that_does_not_fit_is_said() -> None:
    with pytest.raises(ValueError, match="mend the profile") as raised:
        with_profile({}, patch={"spec": {"containers": [{"image": "x"}]}})
    assert str(raised.value).startswith(
        'ClusterColocationProfile "p" spec.patch.spec.containers has an object; expected each'
    )


def test_a_patch_that_is_too_deep_is_said() -> None:
    deep: Object = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="nested too deep"):
        applied(read("p", {"spec": {"patch": deep}}), {}, POD, CLASSES)


def test_a_reservation_has_its_pod_in_a_template() -> None:
    spec = {
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-mid",
        "labels": {"a": "1"},
        "patch": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "2"}]}}}},
    }
    given = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "1"}]}}}}
    after = applied(read("p", {"spec": spec}), given, RESERVATION, CLASSES)
    assert after["metadata"] == {"labels": {"a": "1"}}
    assert after["spec"]["template"]["spec"] == {
        "containers": [{"name": "c", "image": "2"}],
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-mid",
        "priority": 7500,
    }


def test_a_reservation_without_a_template_gets_none() -> None:
    profile = read("p", {"spec": {"schedulerName": "s", "priorityClassName": "gone"}})
    given: Object = {"spec": {"owners": []}}
    assert applied(profile, given, RESERVATION, CLASSES) is given


def test_a_suffix_is_not_put_behind_what_is_no_text() -> None:
    patched = with_profile({"metadata": {}}, patch={"metadata": {"labels": {"a": 1}}})
    assert with_profile(patched, labelSuffixes={"a": "-x"}) == patched
