"""ElasticQuota: what a group of pods may use, and ElasticQuotaProfile: a quota of nodes. No IO."""

from __future__ import annotations

from koord_model.keys import LABEL_QUOTA_PARENT

from koord_kube.definitions.definition import AGE, Column, definition, label_path
from koord_kube.definitions.schema import (
    label_selector,
    labels,
    object_name,
    object_of,
    resources,
    text,
)
from koord_kube.protocol.resources import ELASTIC_QUOTAS, QUOTA_PROFILES

ELASTIC_QUOTA = definition(
    ELASTIC_QUOTAS,
    "What a group of pods may use; labels and annotations make a tree of quotas.",
    {
        "spec": object_of(
            "The bounds.",
            min=resources("Guaranteed amounts."),
            max=resources("Amounts that its pods may use at most."),
        ),
        "status": object_of("What is in use.", used=resources("Amounts of its scheduled pods.")),
    },
    [
        Column("Parent", label_path(LABEL_QUOTA_PARENT)),
        Column("CPU-Used", ".status.used.cpu"),
        Column("CPU-Min", ".spec.min.cpu"),
        Column("CPU-Max", ".spec.max.cpu"),
        Column("Memory-Used", ".status.used.memory"),
        Column("Memory-Min", ".spec.min.memory", priority=1),
        Column("Memory-Max", ".spec.max.memory"),
        AGE,
    ],
    status=False,
    approved="https://github.com/kubernetes-sigs/scheduler-plugins/pull/52",
)

ELASTIC_QUOTA_PROFILE = definition(
    QUOTA_PROFILES,
    "A quota tree whose root has the amounts of some nodes.",
    {
        "spec": object_of(
            "Which nodes, and which quota.",
            "nodeSelector",
            "quotaName",
            quotaName=object_name("Name of the tree's root quota."),
            quotaLabels=labels("Labels that this quota gets."),
            resourceRatio=text('Which part of the nodes\' amounts counts, such as "0.9".'),
            nodeSelector=label_selector("The nodes."),
        ),
        "status": object_of("Nothing yet."),
    },
    [Column("Quota", ".spec.quotaName"), AGE],
    status=False,
    short=["eqp"],
)
