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


SAID = 'ClusterColocationProfile "p" spec.'
MEND = "; create that PriorityClass, or mend the profile"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"priorityClassName": "gone"},
            f'{SAID}priorityClassName is "gone", which is not in the cluster{MEND}',
        ),
        (
            {"priorityClassName": "odd"},
            f'{SAID}priorityClassName is "odd", which has no value{MEND}',
        ),
        (
            {"patch": {"spec": {"containers": [{"image": "x"}]}}},
            f"{SAID}patch.spec.containers has an object; expected each",
        ),
    ],
)
def test_what_does_not_fit_is_said(spec: Object, words: str) -> None:
    with pytest.raises(ValueError, match="mend the profile") as raised:
        with_profile({"spec": {"containers": []}}, **spec)
    assert str(raised.value).startswith(words)


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
