"""TideNodePool: nodes that go between services and batch jobs as the load does. No IO.

Katalyst's, with further fields; its own definition prunes these, and their defaults hold then.
"""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.drain_spec import MOST_LISTED, counts, drain_fields
from koord_kube.definitions.schema import (
    Schema,
    duration,
    flag,
    int_or_text,
    labels,
    list_of,
    object_of,
    percent,
    text,
    whole,
)
from koord_kube.protocol.resources import TIDE_NODE_POOLS


def _taint(about: str) -> Schema:
    return object_of(
        about,
        "key",
        "value",
        key=text("Its key."),
        value=text("Its value."),
        effect=text("Not looked at: pods leave by evictions, so it is always NoSchedule."),
    )


def _label(about: str) -> Schema:
    return object_of(about, "key", "value", key=text("Its key."), value=text("Its value."))


_WATERMARK = object_of(
    "The requests of the online side by which nodes change sides.",
    low=percent(
        "A node goes offline only while the others' CPU and memory stay requested so far at most."
    )
    | {"default": 60},
    high=percent("Above it a node comes back online.") | {"default": 80},
    evictOnlinePodTaint=_taint(
        "The taint of offline nodes; absent: tide.katalyst.kubewharf.io/online-not-used=true."
    ),
    evictOfflinePodTaint=_taint("The taint of online nodes; absent: none."),
)
_CONFIGS = object_of(
    "The nodes of the pool.",
    nodeSelector=labels("Labels that they have; absent: all nodes."),
    onlineLabel=_label("Absent: tide.katalyst.kubewharf.io/node-type=online."),
    offlineLabel=_label("Absent: tide.katalyst.kubewharf.io/node-type=offline."),
    tideLabel=_label("Absent: tide.katalyst.kubewharf.io/tide=true."),
    reserve=object_of(
        "Numbers or percentages of the pool's nodes.",
        online=int_or_text("So many stay online, rounded up."),
        offline=int_or_text("So many stay offline, rounded down."),
    ),
)
_DRAIN = drain_fields()
_NODE = object_of(
    "One node.",
    name=text("Its name."),
    side=text("Where it is.", "online", "offline"),
    state=text("Moving, Unusable or Stays."),
    why=text("Why."),
)

TIDE_NODE_POOL = definition(
    TIDE_NODE_POOLS,
    "Nodes that go between services and batch jobs as the load does.",
    {
        "spec": object_of(
            "The nodes, and when they change sides.",
            "nodeConfigs",
            evictStrategy=object_of(
                "When they do.",
                "type",
                type=text("watermark."),
                watermark=_WATERMARK,
            ),
            nodeConfigs=_CONFIGS,
            coolDown=duration("For so long a node stays where it is after a move.")
            | {"default": "15m"},
            deadline=duration("A move that takes longer is undone.") | {"default": "10m"},
            dryRun=flag("Whether moves are planned and shown only."),
            podRules=_DRAIN["podRules"],
            migrationPolicy=_DRAIN["migrationPolicy"],
        ),
        "status": object_of(
            "What became of it.",
            reserveNodes=object_of(
                "Nodes that stay where they are.",
                onlineNodes=list_of("Their names.", text()),
                offlineNodes=list_of("Their names.", text()),
            ),
            tideNodes=object_of("Nodes that may move.", nodes=list_of("Their names.", text())),
            message=text("What is being done, or why nothing is."),
            requestedPercent=whole(
                "Of CPU or memory of the online side, whichever is more.", 0, bits=32
            ),
            counts=counts(
                "Numbers of nodes.",
                online="Those that services can have.",
                offline="Those that batch jobs can have.",
                toOnline="Those on their way to services.",
                toOffline="Those on their way to batch jobs.",
                unusable="Those that count for neither.",
            ),
            nodes=list_of("Those of which there is something to say.", _NODE)
            | {"maxItems": MOST_LISTED},
        ),
    },
    [
        Column("Online", ".status.counts.online", "integer"),
        Column("Offline", ".status.counts.offline", "integer"),
        Column("ToOnline", ".status.counts.toOnline", "integer"),
        Column("ToOffline", ".status.counts.toOffline", "integer"),
        Column("Requested", ".status.requestedPercent", "integer"),
        Column("Message", ".status.message", priority=1),
        AGE,
    ],
    short=["tnp"],
    required=["spec"],
)
