"""Parts that the definitions of DrainNode and DrainNodeGroup share. No IO."""

from __future__ import annotations

from koord_kube.definitions.schema import (
    Schema,
    duration,
    flag,
    label_selector,
    list_of,
    object_of,
    text,
    whole,
)

MOST_LISTED = 50
"""Pods, or nodes, that a status lists; its counts are of all."""

_DEADLINE = object_of(
    "The time limit of a drain, from its confirmation.",
    "duration",
    duration=duration("For how long pods are moved."),
    then=text("Stop leaves the rest, Delete deletes it whatever budgets say.", "Stop", "Delete")
    | {"default": "Stop"},
)
_WAVE = object_of(
    "Pods that are drained at a time, once no pod of the waves before is left.",
    "name",
    name=text("Its name.", most=63),
    priority=whole("Pods of at least this priority; the last wave that applies counts.", bits=32),
)
_POD_RULE = object_of(
    "How some pods are drained; the first rule that applies to a pod counts.",
    "behavior",
    namespaces=list_of("Namespaces of its pods; absent: all.", text("A namespace.")),
    selector=label_selector("Labels of its pods; absent: all."),
    behavior=text(
        "Drain moves them though something speaks against it, Evict ends them without a place "
        "elsewhere, Skip leaves them, WaitCompleted waits until they have ended.",
        "Drain",
        "Evict",
        "Skip",
        "WaitCompleted",
    ),
    order=whole("The number of their wave, from 0; absent: as their priority says.", 0, bits=32),
)
_MIGRATION = object_of(
    "The way in which pods move.",
    jobMode=text(
        "ReservationFirst proves each place by a Reservation, EvictDirectly by a simulation.",
        "ReservationFirst",
        "EvictDirectly",
    )
    | {"default": "ReservationFirst"},
    ttl=duration("The time limit of each PodMigrationJob.") | {"default": "5m"},
)


def drain_fields() -> dict[str, Schema]:
    """The fields of a drain, of one node or of each node of a group."""
    return {
        "reason": text("Why, in a line for people.", most=1024),
        "requestedBy": text("The person or program that asks for it.", most=253),
        "dryRun": flag("Whether it is planned only: nothing is cordoned, reserved or moved."),
        "deadline": _DEADLINE,
        "waves": list_of("In order; absent: plain, then system-critical pods.", _WAVE)
        | {"maxItems": 16},
        "podRules": list_of("In order; the first that applies counts.", _POD_RULE)
        | {"maxItems": 64},
        "migrationPolicy": _MIGRATION,
    }


def counts(about: str, **fields: str) -> Schema:
    """Numbers of a status by name, with descriptions."""
    return object_of(about, **{name: whole(said, 0, bits=32) for name, said in fields.items()})
