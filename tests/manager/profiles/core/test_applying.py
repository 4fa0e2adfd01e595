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


def labels(given: dict[str, str], **spec: object) -> dict[str, str]:
    found: dict[str, str] = with_profile({"metadata": {"labels": given}}, **spec)["metadata"][
        "labels"
    ]
    return found


def test_labels_and_annotations_are_written_over() -> None:
    pod = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    after = with_profile(pod, labels={"a": "x"}, annotations={"c": "y"})
    assert after["metadata"] == {"labels": {"a": "x", "b": "2"}, "annotations": {"c": "y"}}


def test_a_profile_that_says_nothing_changes_nothing() -> None:
    pod: Object = {"metadata": {"labels": None}, "spec": {}}
    assert with_profile(pod) is pod


def test_a_mapped_key_that_is_absent_writes_nothing() -> None:
    spec = {"labelKeysMapping": {"a": "b", "absent": "c"}, "annotationKeysMapping": {"no": "d"}}
    assert with_profile({"metadata": {"labels": {"a": "1"}}}, **spec) == {
        "metadata": {"labels": {"a": "1", "b": "1"}}
    }


def test_a_mapping_sees_what_the_profile_wrote_before() -> None:
    assert labels({}, labels={"a": "new"}, labelKeysMapping={"a": "b"}) == {"a": "new", "b": "new"}


def test_mappings_have_the_values_from_before_them_whatever_their_order() -> None:
    spec = {"labelKeysMapping": {"a": "b", "b": "c"}}
    profile = read("p", {"spec": spec})
    after = applied(profile, {"metadata": {"labels": {"a": "1", "b": "2"}}}, POD, CLASSES)
    assert after["metadata"]["labels"] == {"a": "1", "b": "1", "c": "2"}


def test_a_suffix_is_put_once_and_only_to_what_is_there() -> None:
    assert labels({"a": "x"}, labelSuffixes={"a": "-s", "b": "-s"}) == {"a": "x-s"}


def test_classes_become_labels_and_a_priority() -> None:
    after = with_profile(
        {"spec": {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}},
        qosClass="BE",
        priorityClassName="koord-batch",
        koordinatorPriority=7,
        schedulerName="koord-scheduler",
    )
    assert after == {
        "metadata": {
            "labels": {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "7"},
        },
        "spec": {
            "schedulerName": "koord-scheduler",
            "priorityClassName": "koord-batch",
            "priority": 5500,
            "preemptionPolicy": "Never",
        },
    }


def test_a_class_without_preemption_policy_takes_the_pods_away() -> None:
    after = with_profile({"spec": {"preemptionPolicy": "Never"}}, priorityClassName="koord-mid")
    assert after["spec"] == {"priorityClassName": "koord-mid", "priority": 7500}


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


def test_the_patch_comes_last() -> None:
    spec = {"labels": {"a": "1"}, "qosClass": "BE", "patch": {"metadata": {"labels": {"a": "2"}}}}
    assert labels({}, **spec) == {"a": "2", "koordinator.sh/qosClass": "BE"}


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
