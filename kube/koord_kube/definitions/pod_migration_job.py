"""PodMigrationJob: a pod that is to leave its node, and what became of that. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import Column, definition
from koord_kube.definitions.schema import (
    anything,
    duration,
    flag,
    list_of,
    object_of,
    object_reference,
    text,
    time,
    whole,
)
from koord_kube.protocol.resources import POD_MIGRATION_JOBS

_MODES = ("ReservationFirst", "EvictDirectly", "")
_DELETE_OPTIONS = object_of(
    "Options of the eviction, as Kubernetes has them.",
    apiVersion=text("Not looked at."),
    kind=text("Not looked at."),
    dryRun=list_of("Not looked at: a job that does nothing is not made.", text()),
    gracePeriodSeconds=whole("The time in which the pod has to end."),
    ignoreStoreReadErrorWithClusterBreakingPotential=flag("Not looked at."),
    orphanDependents=flag("Not looked at."),
    preconditions=object_of(
        "Not looked at: the pod's UID is always one.",
        resourceVersion=text("Not looked at."),
        uid=text("Not looked at."),
    ),
    propagationPolicy=text("Not looked at."),
)
_RESERVATION_OPTIONS = object_of(
    "The Reservation that comes before the eviction.",
    reservationRef=object_reference("One that exists; written once the job's own is made."),
    template=anything("Metadata and spec of the one that is made without reservationRef."),
    preemptionOptions=object_of("Reserved."),
)
_CONDITION = object_of(
    "One condition.",
    "type",
    "status",
    type=text("What it is about."),
    status=text("Whether it holds."),
    reason=text("One word."),
    message=text("What people read."),
    lastProbeTime=time("When it was looked at.") | {"nullable": True},
    lastTransitionTime=time("Since when.") | {"nullable": True},
)
_PREEMPTED = object_of(
    "Not written: a migration preempts nothing.",
    name=text("Its name."),
    namespace=text("Its namespace."),
    nodeName=text("Its node."),
    phase=text("Its phase."),
    preemptedPodRef=object_reference("The pod that made place."),
    podsRef=list_of("The pods that came after it.", object_reference("A pod.")),
)

POD_MIGRATION_JOB = definition(
    POD_MIGRATION_JOBS,
    "A pod that is to leave its node, with a place for it first.",
    {
        "spec": object_of(
            "The pod, and how it leaves.",
            "podRef",
            podRef=object_reference("The pod; another one of its name is never evicted."),
            mode=text("How; empty: as the descheduler has it.", *_MODES),
            paused=flag("Whether nothing is done for now."),
            ttl=duration("For how long, after it was made; none: for ever."),
            reservationOptions=_RESERVATION_OPTIONS,
            deleteOptions=_DELETE_OPTIONS,
        ),
        "status": object_of(
            "What became of it.",
            phase=text("Pending, Running, Succeeded or Failed."),
            status=text("The last condition; Complete at the end."),
            reason=text("One word: why it stands there."),
            message=text("The same for people."),
            conditions=list_of("What was done.", _CONDITION),
            nodeName=text("The node that has the Reservation."),
            podRef=object_reference("The pod that came in its place."),
            preemptedPodsRef=list_of("Not written.", object_reference("A pod.")),
            preemptedPodsReservation=list_of("Not written.", _PREEMPTED),
        ),
    },
    [
        Column("Phase", ".status.phase"),
        Column("Status", ".status.status"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Node", ".status.nodeName"),
        Column("Reservation", ".spec.reservationOptions.reservationRef.name"),
        Column("PodNamespace", ".spec.podRef.namespace"),
        Column("Pod", ".spec.podRef.name"),
        Column("NewPod", ".status.podRef.name"),
        Column("TTL", ".spec.ttl"),
    ],
    short=["pmj"],
)
