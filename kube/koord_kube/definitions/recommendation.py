"""Recommendation: what a workload's containers should ask for. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import (
    conditions,
    label_selector,
    list_of,
    object_of,
    resources,
    text,
    time,
)
from koord_kube.protocol.resources import RECOMMENDATIONS

_TARGET = object_of(
    "What is looked at, in the object's namespace.",
    "type",
    type=text("Which of the two below counts.", "workload", "podSelector"),
    workload=object_of(
        "A workload.",
        "kind",
        "name",
        apiVersion=text("Its group and version, such as apps/v1."),
        kind=text("Its kind, such as Deployment."),
        name=text("Its name."),
    ),
    podSelector=label_selector("Pods with these labels."),
)
_CONTAINER = object_of(
    "One container.",
    containerName=text("Its name."),
    resources=resources("cpu and memory are requests, limits.cpu and limits.memory limits."),
)

RECOMMENDATION = definition(
    RECOMMENDATIONS,
    "What the containers of a workload should ask for, by what they used.",
    {
        "spec": object_of("What is asked.", "target", target=_TARGET),
        "status": object_of(
            "What was found.",
            podStatus=object_of(
                "The recommendation.", containerStatuses=list_of("By container.", _CONTAINER)
            ),
            updateTime=time("When it was made."),
            conditions=conditions("Whether there is one, and of what numbers or why not."),
        ),
    },
    [
        Column("Type", ".spec.target.type"),
        Column("Kind", ".spec.target.workload.kind"),
        Column("Target", ".spec.target.workload.name"),
        Column("Provided", '.status.conditions[?(@.type=="RecommendationProvided")].status'),
        Column("Updated", ".status.updateTime", "date"),
        AGE,
    ],
    short=["recom"],
)
