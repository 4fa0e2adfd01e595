"""ClusterColocationProfile: which pods become co-located ones, and how. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import (
    anything,
    int_or_text,
    label_selector,
    labels,
    object_of,
    text,
    whole,
)
from koord_kube.protocol.resources import COLOCATION_PROFILES

_SPEC = object_of(
    "Which pods are meant, and what they get when they are created.",
    namespaceSelector=label_selector("Pods of these namespaces; empty is all."),
    selector=label_selector("Pods with these labels; empty is all."),
    probability=int_or_text('Which share of them, such as "30%"; without it all.'),
    qosClass=text("Quality class that they get.", "LSE", "LSR", "LS", "BE", "SYSTEM"),
    priorityClassName=text("PriorityClass that they get, with its value."),
    koordinatorPriority=whole("Priority within their class, as label.", bits=32),
    labels=labels("Labels that they get."),
    annotations=labels("Annotations that they get."),
    labelKeysMapping=labels("Labels that get the value of another label: from name to name."),
    annotationKeysMapping=labels("The same for annotations."),
    labelSuffixes=labels("What is put behind the value of labels that they have."),
    schedulerName=text("Scheduler that they get."),
    # Clients in Go write null where there is none.
    patch=anything("Strategic merge patch of the pod.") | {"nullable": True},
)

COLOCATION_PROFILE = definition(
    COLOCATION_PROFILES,
    "Which pods become co-located ones, and how, without a change of their workloads.",
    {"spec": _SPEC, "status": object_of("Nothing yet.")},
    [
        Column("QoS", ".spec.qosClass"),
        Column("PriorityClass", ".spec.priorityClassName"),
        Column("Probability", ".spec.probability"),
        AGE,
    ],
)
