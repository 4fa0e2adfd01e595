"""The descheduler's model of the cluster, followed on every replica."""

from __future__ import annotations

import time
from collections.abc import Callable

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.kind_follower import KindFollower
from koord_kube.protocol.api import Api

from koord_descheduler.planner.cluster import ClusterModel


class ClusterFollower(KindFollower):
    """Informers that keep a ``ClusterModel`` up to date; ``on_change`` is called after changes."""

    def __init__(
        self,
        api: Api,
        cluster: ClusterModel,
        on_change: Callable[[], None],
        *,
        on_warning: OnWarning = ignore_warning,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(api, on_change, on_warning=on_warning, monotonic=monotonic)
        self.cluster = cluster
        for kind in cluster.kinds(monotonic):
            self.follow(kind)
