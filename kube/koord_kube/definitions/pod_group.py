"""PodGroup: pods that start together. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import object_of, resources, text, time, whole
from koord_kube.protocol.resources import POD_GROUPS

POD_GROUP = definition(
    POD_GROUPS,
    "Pods that start together or not at all.",
    {
        "spec": object_of(
            "How many of them.",
            minMember=whole("How many have to get nodes at once.", bits=32),
            minResources=resources("What they ask for together; not looked at."),
            scheduleTimeoutSeconds=whole("For how long room is held for them.", bits=32),
        ),
        "status": object_of(
            "What became of them.",
            phase=text("Where the group stands."),
            occupiedBy=text("What its pods belong to."),
            scheduled=whole("How many have a node.", bits=32),
            running=whole("How many run.", bits=32),
            succeeded=whole("How many have succeeded.", bits=32),
            failed=whole("How many have failed.", bits=32),
            scheduleStartTime=time("When it was tried first."),
        ),
    },
    [
        Column("Phase", ".status.phase"),
        Column("Min", ".spec.minMember", "integer"),
        Column("Scheduled", ".status.scheduled", "integer"),
        Column("Running", ".status.running", "integer"),
        AGE,
    ],
    status=False,
    approved="https://github.com/kubernetes-sigs/scheduler-plugins/pull/52",
)
