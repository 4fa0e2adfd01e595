"""DrainNode: a node to be emptied, planned and proved before it is confirmed. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.drain_spec import MOST_LISTED, counts, drain_fields
from koord_kube.definitions.schema import flag, list_of, object_name, object_of, text, time, whole
from koord_kube.protocol.resources import DRAIN_NODES

_POD = object_of(
    "One pod.",
    namespace=text("Its namespace."),
    name=text("Its name."),
    uid=text("Its UID."),
    state=text("Where it stands."),
    wave=whole("The number of its wave.", 0, bits=32),
    targetNode=text("The node that is planned for it."),
    reservation=text("The Reservation that keeps its place."),
    job=text("Its PodMigrationJob."),
    why=text("Why it stands there."),
)
_COUNTS = counts(
    "Numbers of pods.",
    total="Those to be drained that are on the node.",
    ready="Those that have a place.",
    migrating="Those that are being moved, or end.",
    blocked="Those that something keeps on the node.",
    waiting="All others of them.",
    drained="Those that were moved.",
)
_CONFIRM = text(
    "Nothing is moved before it is Confirmed; Rejected and Aborted undo all of it.",
    "WaitForConfirm",
    "Confirmed",
    "Rejected",
    "Aborted",
) | {"default": "WaitForConfirm"}

DRAIN_NODE = definition(
    DRAIN_NODES,
    "A node that is to be emptied; its deletion makes the node as it was.",
    {
        "spec": object_of(
            "What is to be drained, and how.",
            "nodeName",
            nodeName=object_name("The node; the first one counts."),
            confirmState=_CONFIRM,
            **drain_fields(),
        ),
        "status": object_of(
            "What became of it.",
            phase=text(
                "Where it stands.",
                "Pending",
                "Planning",
                "Waiting",
                "Running",
                "Blocked",
                "Drained",
                "Failed",
                "Aborted",
            ),
            message=text("Why it stands there."),
            nodeName=text("The node."),
            cordonedBefore=flag("Whether the node was cordoned before; then it stays so."),
            confirmTime=time("When it was first seen to be confirmed."),
            endTime=time("When it was drained, failed or aborted."),
            counts=_COUNTS,
            pods=list_of("Those to be drained, blocked ones first.", _POD)
            | {"maxItems": MOST_LISTED},
            unlistedPods=whole("The number of further pods.", 0, bits=32),
        ),
    },
    [
        Column("Node", ".spec.nodeName"),
        Column("Confirm", ".spec.confirmState"),
        Column("Phase", ".status.phase"),
        Column("Pods", ".status.counts.total", "integer"),
        Column("Blocked", ".status.counts.blocked", "integer"),
        Column("Message", ".status.message", priority=1),
        AGE,
    ],
    short=["dn"],
    required=["spec"],
)
