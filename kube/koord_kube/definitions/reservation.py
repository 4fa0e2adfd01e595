"""Reservation: room that is kept for pods to come. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import (
    anything,
    duration,
    flag,
    label_selector,
    list_of,
    object_of,
    object_reference,
    reference,
    resources,
    text,
    time,
)
from koord_kube.protocol.resources import RESERVATIONS

_OWNER = object_of(
    "Pods for which all of this holds.",
    object=object_reference("A pod."),
    controller=reference(
        "What they belong to.",
        controller=flag("Whether it manages them."),
        blockOwnerDeletion=flag("Not looked at."),
    ),
    labelSelector=label_selector("Pods with these labels."),
) | {"minProperties": 1}
_TAINT = object_of(
    "One taint.",
    "key",
    "effect",
    key=text("Its key."),
    value=text("Its value."),
    effect=text("What it does.", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    timeAdded=time("When it came."),
)
_PRE_ALLOCATION = object_of(
    "Which pods a reservation may take over.",
    mode=text("Where that is said.", "Default", "Cluster") | {"default": "Default"},
    enableMultiple=flag("Whether these may be several.") | {"default": False},
)
_CONDITION = object_of(
    "One condition.",
    type=text("What it is about.", "Scheduled", "Ready"),
    status=text("Whether it holds.", "True", "False", "Unknown"),
    reason=text("One word."),
    message=text("What people read."),
    lastProbeTime=time("When it was looked at."),
    lastTransitionTime=time("Since when."),
)

RESERVATION = definition(
    RESERVATIONS,
    "Room on a node that is kept for some pods.",
    {
        "spec": object_of(
            "What is reserved, and for whom.",
            "template",
            "owners",
            template=anything("The pod that it keeps the place of."),
            owners=list_of("For whom; one of them is enough.", _OWNER) | {"minItems": 1},
            ttl=duration("For how long, after it was made; 0 for ever.") | {"default": "24h"},
            expires=time("Until when; counts before ttl."),
            preAllocation=flag("Whether it may take over pods that run on its node."),
            preAllocationPolicy=_PRE_ALLOCATION,
            allocateOnce=flag("Whether the first pod takes all of it.") | {"default": True},
            allocatePolicy=text("What pods may take beside it.", "Aligned", "Restricted"),
            unschedulable=flag("Whether it is closed for new pods."),
            taints=list_of("What pods have to tolerate.", _TAINT),
        ),
        "status": object_of(
            "What became of it.",
            phase=text("Where it stands.") | {"default": "Pending"},
            nodeName=text("The node that has it."),
            allocatable=resources("What is reserved."),
            allocated=resources("What pods have of it."),
            currentOwners=list_of(
                "The pods that have something of it.", object_reference("A pod.")
            ),
            conditions=list_of("Why it stands there.", _CONDITION),
        ),
    },
    [
        Column("Phase", ".status.phase"),
        Column("Node", ".status.nodeName"),
        Column("TTL", ".spec.ttl"),
        Column("Expires", ".spec.expires"),
        AGE,
    ],
    required=["spec"],
)
