"""The table of what is measured: one row a kind, with its unit and labels. No IO.

Names, labels and units are Koordinator's where it has the kind. A new kind is a new
row; the metric cache, ``/metrics`` and ``koordctl metrics`` follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricKind:
    """One row.

    ``step`` is how many seconds apart the points are kept that are kept as they came:
    1 for what is measured each second, 5 for delays, 10 for what is measured less often.
    """

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    step: int = 1


POD_UID = "pod_uid"
"""The label of what is measured of a pod or of its containers."""

_NONE: tuple[str, ...] = ()
_POD: tuple[str, ...] = (POD_UID,)
_CONTAINER: tuple[str, ...] = (POD_UID, "container_id")
_NUMA = ("numa_node_id",)
_GPU = ("gpu_minor", "gpu_device_uuid")
_HOST_APP = ("host_app_name",)
_PSI = ("psi_resource", "psi_precision", "psi_degree")


def _rows() -> tuple[MetricKind, ...]:
    rows = [
        MetricKind("node_cpu_usage", "cores", "CPU of everything on the node"),
        MetricKind("node_memory_usage", "bytes", "memory of the node, without page cache"),
        MetricKind(
            "node_memory_usage_with_page_cache", "bytes", "memory of the node, page cache too"
        ),
        MetricKind(
            "node_memory_huge_pages", "bytes", "memory set aside for huge pages, used or not"
        ),
        MetricKind("node_numa_cpu_usage", "cores", "CPU of a NUMA node", _NUMA),
        MetricKind("node_numa_memory_usage", "bytes", "memory of a NUMA node", _NUMA),
        MetricKind("sys_cpu_usage", "cores", "CPU of what is neither pod nor host application"),
        MetricKind(
            "sys_memory_usage", "bytes", "memory of what is neither pod nor host application"
        ),
        MetricKind("sys_numa_cpu_usage", "cores", "the same, of a NUMA node", _NUMA),
        MetricKind("sys_numa_memory_usage", "bytes", "the same, of a NUMA node", _NUMA),
        *(
            MetricKind(f"node_numa_memory_{name}", "bytes", f"{meaning} of a NUMA node", _NUMA)
            for name, meaning in (
                ("free", "free memory"),
                ("min_watermark", "min watermark"),
                ("low_watermark", "low watermark"),
                ("high_watermark", "high watermark"),
                ("inactive_file", "idle page cache"),
            )
        ),
        MetricKind("be_memory_current", "bytes", "all that best-effort pods are charged for"),
        MetricKind(
            "node_cpu_sched_wait", "ms/s", "time that tasks waited for a CPU, mean of CPUs", step=10
        ),
        MetricKind(
            "node_cpu_class_sched_wait",
            "ms/s",
            "the same, of CPUs that best-effort pods may use, and of the others",
            ("cpu_class",),
            step=10,
        ),
        MetricKind(
            "qos_dying_cgroups",
            "count",
            "removed groups below a class that memory is still charged to",
            ("kube_qos",),
            step=10,
        ),
        MetricKind(
            "node_be",
            "millicores",
            "best-effort pods together: what they use, ask for, and may have",
            ("be_resource", "be_allocation"),
        ),
    ]
    for who, labels in (("pod", _POD), ("container", _CONTAINER)):
        rows += [
            MetricKind(f"{who}_cpu_usage", "cores", f"CPU of a {who}", labels),
            MetricKind(
                f"{who}_memory_usage", "bytes", f"memory of a {who}, without page cache", labels
            ),
            MetricKind(
                f"{who}_memory_usage_with_page_cache",
                "bytes",
                f"memory of a {who}, page cache too",
                labels,
            ),
            MetricKind(
                f"{who}_cpu_throttled",
                "ratio",
                f"CPU periods in which a {who} was throttled, of those in which it ran",
                labels,
            ),
            MetricKind(
                f"{who}_cpu_sched_wait",
                "ms/s",
                f"time that tasks of a {who} waited for a CPU, for each second of CPU they used",
                labels,
                step=5,
            ),
            MetricKind(
                f"{who}_psi",
                "percent",
                f"time that tasks of a {who} waited for a resource, 10 s average",
                (*labels, *_PSI),
                step=10,
            ),
            MetricKind(
                f"{who}_psi_cpu_full_supported",
                "flag",
                "1 where the kernel says when all tasks wait for CPU",
                labels,
                step=10,
            ),
        ]
    rows += [
        MetricKind(
            "pod_memory_stat",
            "bytes",
            "memory of a pod that can be reclaimed, and swap that it may use",
            (*_POD, "memory_stat"),
            step=10,
        ),
        MetricKind(
            "pod_memory_reclaim",
            "pages/s",
            "pages of a pod that were scanned, reclaimed, and read again",
            (*_POD, "memory_counter"),
            step=10,
        ),
        MetricKind(
            "node_psi", "percent", "time that tasks of the node waited, 10 s average", _PSI, 10
        ),
        MetricKind(
            "class_psi",
            "percent",
            "the same, of the group of all burstable or all best-effort pods",
            ("kube_qos", *_PSI),
            10,
        ),
        MetricKind("node_load1", "count", "load of the node over a minute", step=10),
        MetricKind("node_imagefs_available", "bytes", "free space for images", step=10),
        MetricKind("node_imagefs_capacity", "bytes", "space for images", step=10),
        MetricKind("node_imagefs_inodes_free", "count", "free inodes for images", step=10),
        MetricKind("node_imagefs_inodes", "count", "inodes for images", step=10),
        MetricKind("host_application_cpu_usage", "cores", "CPU of a host application", _HOST_APP),
        MetricKind(
            "host_application_memory_usage", "bytes", "its memory, without page cache", _HOST_APP
        ),
        MetricKind(
            "host_application_memory_usage_with_page_cache",
            "bytes",
            "its memory, page cache too",
            _HOST_APP,
        ),
        MetricKind(
            "container_cpi",
            "count",
            "cycles and instructions of a container in one window",
            (*_CONTAINER, "cpi_resource"),
            step=10,
        ),
        MetricKind(
            "container_memory_delay",
            "ms/s",
            "time that tasks of a container waited for memory, all together",
            _CONTAINER,
            step=5,
        ),
        MetricKind(
            "container_memory_limited",
            "1/s",
            "times that its own limit made a container reclaim memory",
            _CONTAINER,
            step=5,
        ),
        MetricKind(
            "container_disk_wait",
            "ms",
            "how long tasks of a container waited for a disk each time, on average",
            _CONTAINER,
            step=5,
        ),
        MetricKind(
            "container_tcp_rtt",
            "ms",
            "round-trip time of a container's TCP connections that sent data, the median",
            _CONTAINER,
            step=5,
        ),
        MetricKind(
            "container_tcp_retransmits",
            "ratio",
            "TCP segments that a container had to send again, of those with data",
            _CONTAINER,
            step=5,
        ),
        MetricKind(
            "pod_network_usage",
            "bytes/s",
            "what a pod's network interfaces received and sent",
            _POD,
            step=5,
        ),
        MetricKind(
            "pod_disk_usage",
            "bytes/s",
            "what a pod read from and wrote to the disk that it used most",
            _POD,
            step=5,
        ),
        MetricKind(
            "node_memory_allocstall",
            "1/s",
            "times that tasks reclaimed memory of the node themselves",
            step=5,
        ),
        MetricKind(
            "resctrl_resource_llc",
            "bytes",
            "last-level cache that a class occupies",
            ("qos", "cache_id"),
            step=10,
        ),
        MetricKind(
            "resctrl_resource_mb",
            "bytes/s",
            "memory bandwidth of a class",
            ("qos", "cache_id", "resctrl_mb_type"),
            step=10,
        ),
    ]
    for who, labels in (
        ("node", _NONE),
        ("pod", _POD),
        ("container", _CONTAINER),
        ("host_application", _HOST_APP),
    ):
        rows += [
            MetricKind(
                f"{who}_memory_usage_with_hot_page_usage",
                "bytes",
                f"memory of a {who}, page cache that is in use too",
                labels,
                step=10,
            ),
            MetricKind(
                f"{who}_memory_cold_page_size",
                "bytes",
                f"page cache of a {who} that nobody used lately",
                labels,
                step=10,
            ),
        ]
    for who, labels in (("node", _NONE), ("pod", _POD), ("container", _CONTAINER)):
        rows += [
            MetricKind(
                f"{who}_gpu_core_usage", "percent", f"a GPU's cores, {who}", (*labels, *_GPU)
            ),
            MetricKind(
                f"{who}_gpu_memory_usage", "bytes", f"a GPU's memory, {who}", (*labels, *_GPU)
            ),
        ]
    return tuple(rows)


KINDS = {kind.name: kind for kind in _rows()}
