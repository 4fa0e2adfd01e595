"""NodeMetric: what everything on a node used lately, and how that is to be measured. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.device import device_info
from koord_kube.definitions.schema import (
    Schema,
    anything,
    duration,
    list_of,
    map_of,
    object_of,
    resources,
    text,
    time,
    whole,
)
from koord_kube.protocol.resources import NODE_METRICS

_QOS = text("Its quality class.")
_PRIORITY = text("Its priority class, such as koord-prod.")


def _usage(about: str) -> Schema:
    return object_of(
        about,
        resources=resources("CPU in cores and memory in bytes."),
        devices=list_of("What was used of devices.", device_info()),
    )


def _aggregated(about: str) -> Schema:
    window = object_of(
        "One window.",
        usage=map_of("By aggregation: avg, p50, p90, p95, p99.", _usage("The aggregate.")),
        duration=duration("How long the window is."),
    )
    return list_of(about, window)


_NUMA = object_of(
    "One NUMA node.",
    "numaNodeID",
    numaNodeID=whole("Its number.", 0, bits=32),
    nodeUsage=_usage("All that is used of it."),
    systemUsage=_usage("What of that neither pods nor host applications use."),
)
_NODE = object_of(
    "The node as a whole.",
    nodeUsage=_usage("All that is used."),
    aggregatedNodeUsages=_aggregated("The same over windows, where there are enough samples."),
    systemUsage=_usage("What neither pods nor host applications use."),
    aggregatedSystemUsages=_aggregated("The same over windows."),
    numaUsages=list_of("By NUMA node.", _NUMA),
)
_POD = object_of(
    "One pod.",
    name=text("Its name."),
    namespace=text("Its namespace."),
    podUsage=_usage("What it used."),
    priority=_PRIORITY,
    qos=_QOS,
    extensions=anything("More about it; pykoord.containers has usage by container."),
)
_APPLICATION = object_of(
    "One application outside of pods.",
    name=text("Its name."),
    usage=_usage("What it used."),
    priority=_PRIORITY,
    qos=_QOS,
)

STATUS = object_of(
    "What was measured.",
    updateTime=time("When, by the node's clock."),
    nodeMetric=_NODE,
    podsMetric=list_of("By pod.", _POD),
    hostApplicationMetric=list_of("By host application.", _APPLICATION),
    prodReclaimableMetric=object_of(
        "What production pods asked for and will probably not use.",
        resource=_usage("How much of it."),
    ),
    prodPeakMetric=object_of(
        "What production pods and the system will probably need at most.",
        resource=_usage("How much of it."),
    ),
    extensions=anything(
        "More; pykoord.conditions are taints that eviction plugins want, pykoord.rollout the "
        "version of the configuration that the node has applied."
    ),
)

SPEC = object_of(
    "How the node is to measure and to report.",
    metricCollectPolicy=object_of(
        "The policy, set by the manager.",
        aggregateDurationSeconds=whole("Window of all usages, in seconds.", 1),
        reportIntervalSeconds=whole("Seconds between two reports.", 1),
        nodeAggregatePolicy=object_of(
            "The windows of aggregated usages.",
            durations=list_of('Their lengths, such as "5m0s".', duration()),
        ),
        nodeMemoryCollectPolicy=text(
            "Which memory counts as used.",
            "usageWithoutPageCache",
            "usageWithHotPageCache",
            "usageWithPageCache",
        ),
    ),
)

NODE_METRIC = definition(
    NODE_METRICS,
    "What everything on a node used lately.",
    {"spec": SPEC, "status": STATUS},
    [
        Column("CPU", ".status.nodeMetric.nodeUsage.resources.cpu"),
        Column("Memory", ".status.nodeMetric.nodeUsage.resources.memory"),
        Column("Updated", ".status.updateTime", "date"),
        AGE,
    ],
)
