"""NodeSLO: what the cluster wants of a node's agent. No IO.

Ranges are those that ``koord_model.node_slo_document`` reads.
"""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import (
    Schema,
    anything,
    flag,
    int_or_text,
    list_of,
    map_of,
    object_of,
    percent,
    quantity,
    text,
    whole,
)
from koord_kube.protocol.resources import NODE_SLOS

_ENABLE = flag("Whether it is done at all.")


def _allocatable(about: str) -> Schema:
    """Percent of what is allocatable: more than 100 where that is oversold."""
    return whole(about, 0)


_THRESHOLD = object_of(
    "How full a node may get with batch pods on it.",
    enable=_ENABLE,
    cpuSuppressThresholdPercent=percent("CPU that all pods together may use."),
    cpuSuppressMinPercent=percent("CPU that batch pods keep."),
    cpuSuppressPolicy=text("How they are held down.", "cpuset", "cfsQuota"),
    memoryEvictThresholdPercent=percent("Memory above which batch pods are evicted."),
    memoryEvictLowerPercent=percent("Memory down to which they are."),
    memoryAllocatableEvictThresholdPercent=_allocatable("Requests above which pods are evicted."),
    memoryAllocatableEvictLowerPercent=_allocatable("Requests down to which they are."),
    cpuEvictBESatisfactionUpperPercent=percent("Share of their CPU requests up to which."),
    cpuEvictBESatisfactionLowerPercent=percent("Share of their CPU requests below which."),
    cpuEvictBEUsageThresholdPercent=percent("How much of what they have they must use."),
    cpuEvictTimeWindowSeconds=whole("Seconds over which is looked.", 1),
    cpuEvictThresholdPercent=percent("CPU use above which pods are evicted."),
    cpuEvictLowerPercent=percent("CPU use down to which they are."),
    cpuAllocatableEvictThresholdPercent=_allocatable("CPU requests above which."),
    cpuAllocatableEvictLowerPercent=_allocatable("CPU requests down to which."),
    cpuEvictPolicy=text(
        "What their CPU is held against.", "evictByRealLimit", "evictByAllocatable"
    ),
    evictEnabledPriorityThreshold=whole("Priority up to which pods may go.", bits=32),
    allocatableEvictPriorityThreshold=whole("The same, for requests.", 0, 7999, bits=32),
)
_CPU = object_of(
    "Who goes first on a CPU.",
    enable=_ENABLE,
    groupIdentity=whole("Group identity.", -1, 2),
    schedIdle=whole("Whether the group is idle (cpu.idle).", 0, 1),
    coreExpeller=flag("Whether hyper-thread siblings are kept from others."),
)
_MEMORY = object_of(
    "How memory is kept and taken back.",
    enable=_ENABLE,
    minLimitPercent=percent("memory.min of the request."),
    lowLimitPercent=percent("memory.low of the request."),
    throttlingPercent=percent("memory.high between request and limit."),
    wmarkRatio=percent("Above which share memory is taken back early; 0 is off."),
    wmarkScalePermill=whole("How much is taken back then, in thousandths.", 1, 1000),
    wmarkMinAdj=whole("How much sooner or later than others.", -25, 50),
    priorityEnable=whole("Whether the priority below counts.", 0, 1),
    priority=whole("Priority when memory runs out.", 0, 12),
    oomKillGroup=whole("Whether all of a container is killed.", 0, 1),
    pageCacheEnable=flag("Whether the page cache is limited."),
    pageCacheLimitPercent=percent("Page cache of the limit."),
    pageCacheLimitSize=whole("Page cache in bytes.", 0),
    pageCacheReclaimSync=flag("Whether it is taken back at once."),
)
_IO = object_of(
    "Limits and weights.",
    readIOPS=whole("Reads a second; 0 is no limit.", 0),
    writeIOPS=whole("Writes a second; 0 is no limit.", 0),
    readBPS=whole("Bytes read a second; 0 is no limit.", 0),
    writeBPS=whole("Bytes written a second; 0 is no limit.", 0),
    ioWeightPercent=whole("Weight among groups.", 1, 100),
    readLatency=whole("Microseconds above which the disk is full."),
    writeLatency=whole("Microseconds above which the disk is full."),
    readLatencyPercent=percent("Of reads that are looked at."),
    writeLatencyPercent=percent("Of writes that are looked at."),
    enableUserModel=flag("Whether the cost model below counts."),
    modelReadBPS=whole("Bytes read a second.", 1),
    modelWriteBPS=whole("Bytes written a second.", 1),
    modelReadSeqIOPS=whole("Sequential reads a second.", 1),
    modelWriteSeqIOPS=whole("Sequential writes a second.", 1),
    modelReadRandIOPS=whole("Random reads a second.", 1),
    modelWriteRandIOPS=whole("Random writes a second.", 1),
)
_BLKIO = object_of(
    "Disks.",
    enable=_ENABLE,
    blocks=list_of(
        "By disk.",
        object_of(
            "One disk.",
            name=text("Device, volume group or pod volume."),
            type=text("Which of these.", "device", "volumegroup", "podvolume"),
            ioCfg=_IO,
        ),
    ),
)
_RESCTRL = object_of(
    "Cache and memory bandwidth.",
    enable=_ENABLE,
    catRangeStartPercent=percent("Where its part of the cache begins."),
    catRangeEndPercent=percent("Where its part of the cache ends."),
    mbaPercent=percent("Memory bandwidth."),
)
_NETWORK = object_of(
    "Network bandwidth: percent of the node's, or bits a second as text.",
    enable=_ENABLE,
    ingressRequest=int_or_text("What it always gets."),
    ingressLimit=int_or_text("What it gets at most."),
    egressRequest=int_or_text("What it may always send."),
    egressLimit=int_or_text("What it may send at most."),
)


def _class(about: str) -> Schema:
    return object_of(
        about,
        cpuQOS=_CPU,
        memoryQOS=_MEMORY,
        blkioQOS=_BLKIO,
        resctrlQOS=_RESCTRL,
        networkQOS=_NETWORK,
    )


_QOS = object_of(
    "What each quality class gets.",
    policies=object_of(
        "How it is done.",
        cpuPolicy=text("CPU.", "groupIdentity", "coreSched"),
        netQOSPolicy=text("Network.", "tc", "terway-qos"),
    ),
    lsrClass=_class("Pods with CPUs of their own."),
    lsClass=_class("Latency-sensitive pods."),
    beClass=_class("Best-effort pods."),
    systemClass=_class("System pods."),
    cgroupRoot=_class("The root of all groups."),
)
_BURST = object_of(
    "How pods may exceed their CPU limit for a moment.",
    policy=text("Which ways.", "none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"),
    cpuBurstPercent=whole("Saved time of the limit (cpu.max.burst).", 0, 10000),
    cfsQuotaBurstPercent=whole("Quota of a throttled pod, of its limit.", 100),
    cfsQuotaBurstPeriodSeconds=whole("How long; −1 is without end.", -1),
    sharePoolThresholdPercent=percent("Use of the shared CPUs above which nobody may."),
)
_SYSTEM = object_of(
    "The node's kernel.",
    minFreeKbytesFactor=whole("vm.min_free_kbytes in 1/10000 of memory.", 1),
    watermarkScaleFactor=whole("vm.watermark_scale_factor.", 1, 400),
    memcgReapBackGround=whole("Whether memory of removed groups is taken back.", 0, 1),
    schedGroupIdentityEnabled=whole("Whether the kernel heeds group identities.", 0, 1),
    schedIdleSaverWmark=whole("sched_idle_saver_wmark, in nanoseconds."),
    schedFeatures=map_of("Scheduler features, on or off.", {"type": "boolean"}),
    pageCacheLimitEnabled=whole("Whether page caches can be limited.", 0, 1),
    totalNetworkBandwidth=quantity("The network card's bits a second; 0: as it says itself."),
)
_APPLICATION = object_of(
    "One application.",
    name=text("Its name."),
    priority=text("Its priority class."),
    qos=text("Its quality class."),
    cgroupPath=object_of(
        "Its cgroup; without it by its classes.",
        base=text(
            "Below what.", "CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"
        ),
        parentDir=text("Group below that."),
        relativePath=text("Group below that."),
    ),
    strategy=object_of("Nothing yet."),
)

NODE_SLO = definition(
    NODE_SLOS,
    "What the cluster wants of the agent on the node of the same name.",
    {
        "spec": object_of(
            "Strategies and their settings.",
            resourceUsedThresholdWithBE=_THRESHOLD,
            resourceQOSStrategy=_QOS,
            cpuBurstStrategy=_BURST,
            systemStrategy=_SYSTEM,
            extensions=anything("Of others; pykoord.strategies has modes and settings of ours."),
            hostApplications=list_of("Applications outside of pods.", _APPLICATION),
        ),
        "status": object_of("Nothing yet."),
    },
    [
        Column("Suppress", ".spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent"),
        Column("Burst", ".spec.cpuBurstStrategy.policy"),
        AGE,
    ],
)
