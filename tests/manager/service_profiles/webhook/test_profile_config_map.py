"""Refusals of ConfigMaps with profiles of services, and their words."""

from __future__ import annotations

from typing import Any

import pytest
from koord_manager.service_profiles.core.document import TYPE_LABEL
from koord_manager.service_profiles.webhook.config_map import validate_profile
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest

WEB = "targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
TYPING_ERROR = "baselinePercentt: 10\n"
BAD = "systemIndicator: [{name: cpi, indicators: [{indicatorLevel: UpperBound, value: -1}]}]\n"
UNUSED = "systemIndicator: [{name: mem_l3_miss_lat}]\n"


def config_map(spec: Any, labelled: bool = True) -> dict[str, Any]:
    labels = dict([TYPE_LABEL]) if labelled else {}
    return {"metadata": {"name": "web", "namespace": "shop", "labels": labels}, "data": spec}


@pytest.mark.parametrize(
    ("spec", "old", "refusal"),
    [
        (WEB, None, ""),
        (BAD, None, "spec targetRef.apiVersion is missing; expected that of a workload"),
        ("{", None, "data.spec is not valid YAML"),
        ("? [a]\n: b", None, "data.spec is not valid YAML"),
        (WEB + "1: 2\n", None, "spec 1 is 2; expected one of targetRef, "),
        (
            *(WEB + BAD, None),
            "spec systemIndicator[0].indicators[0].value is -1; expected a number above 0, 1000000",
        ),
        (WEB + TYPING_ERROR, WEB, "spec baselinePercentt is 10; expected one of targetRef, "),
        # What was bad before keeps nobody from changing the rest.
        (WEB + BAD + "baselinePercent: 5\n", WEB + BAD, ""),
        (WEB + BAD + TYPING_ERROR, WEB + BAD, "spec baselinePercentt is 10"),
    ],
)
def test_an_error_that_a_change_adds_is_refused(spec: str, old: str | None, refusal: str) -> None:
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE

    def asked(labelled: bool) -> str:
        given = config_map({"spec": spec}, labelled)
        before = {} if old is None else config_map({"spec": old})
        question = AdmissionRequest(
            *("u", operation, "configmaps", "", "", "shop", "web"), object=given, old=before
        )
        return validate_profile(question, None).refusal

    assert asked(labelled=True).startswith(refusal)
    assert bool(asked(labelled=True)) == bool(refusal)
    assert asked(labelled=False) == ""


def test_what_nothing_acts_on_is_a_warning() -> None:
    question = AdmissionRequest(
        *("u", AdmissionOperation.CREATE, "configmaps", "", "", "shop", "web"),
        object=config_map({"spec": WEB + UNUSED}),
        old={},
    )
    answer = validate_profile(question, None)
    assert answer.refusal == ""
    assert "mem_l3_miss_lat" in answer.warnings[0]
