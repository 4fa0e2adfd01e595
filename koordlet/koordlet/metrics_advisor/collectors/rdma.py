"""RDMA devices, by whatever driver: the info ``RDMADevices``.

Sources: those of ``koord_host.devices.rdma``, which also says when one is healthy.
"""

from __future__ import annotations

from koord_host.devices.rdma import RDMAReader

from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources, Samples

INTERVAL = "node_topology_sync_interval"
ENABLED_BY = ("RDMADevices",)


class Collector:
    """Reads sysfs at each run."""

    def __init__(self, sources: CollectorSources) -> None:
        self._reader = RDMAReader(sources.tree, sources.sys_root)

    def collect(self, context: CollectContext) -> Samples:
        """All complete devices; one that vanishes meanwhile is left out."""
        info, partial = self._reader.read()
        return Samples(infos=(info,), partial=partial)
