"""DrainNodeGroup: nodes to be emptied one after the other. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.drain_spec import MOST_LISTED, counts, drain_fields
from koord_kube.definitions.schema import (
    flag,
    label_selector,
    list_of,
    object_of,
    percent,
    text,
    time,
    whole,
)
from koord_kube.protocol.resources import DRAIN_NODE_GROUPS

_NODE = object_of(
    "One node.",
    name=text("Its name."),
    drainNode=text("Its DrainNode."),
    phase=text("The phase of that."),
    why=text("Why it stands there."),
)

DRAIN_NODE_GROUP = definition(
    DRAIN_NODE_GROUPS,
    "Nodes of which some are to be emptied, one by one, those with most free first.",
    {
        "spec": object_of(
            "What is to be drained, and how.",
            "nodeSelector",
            nodeSelector=label_selector("Labels of the nodes.") | {"minProperties": 1},
            confirmState=text(
                "Aborted undoes all of it; nodes are confirmed by executionPolicy.partition.",
                "WaitForConfirm",
                "Aborted",
            )
            | {"default": "WaitForConfirm"},
            executionPolicy=object_of(
                "The nodes that may be emptied now.",
                partition=whole("So many of the planned nodes are confirmed.", 0, bits=32)
                | {"default": 0},
                paused=flag("Whether no further node is planned or confirmed."),
            ),
            terminationPolicy=object_of(
                "The end of it, before all nodes are drained.",
                maxNodeCount=whole("At most so many nodes are drained.", 0, bits=32),
                percentageOfResourceReserved=percent(
                    "So much of the CPU and memory of the other nodes has to stay free."
                ),
            ),
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
                "Succeeded",
                "Failed",
                "Aborted",
            ),
            message=text("Why it stands there."),
            endTime=time("When it ended."),
            counts=counts(
                "Numbers of nodes.",
                selected="Those with its labels.",
                planned="Those that have a DrainNode.",
                confirmed="Those that are confirmed.",
                blocked="Those where pods block.",
                drained="Those that are drained.",
                failed="Those whose drain failed or was aborted.",
            ),
            nodes=list_of("Those with a DrainNode.", _NODE) | {"maxItems": MOST_LISTED},
            unlistedNodes=whole("The number of further nodes.", 0, bits=32),
        ),
    },
    [
        Column("Phase", ".status.phase"),
        Column("Partition", ".spec.executionPolicy.partition", "integer"),
        Column("Planned", ".status.counts.planned", "integer"),
        Column("Drained", ".status.counts.drained", "integer"),
        Column("Blocked", ".status.counts.blocked", "integer"),
        Column("Message", ".status.message", priority=1),
        AGE,
    ],
    short=["dng"],
    required=["spec"],
)
