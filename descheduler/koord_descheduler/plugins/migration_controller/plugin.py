"""The plugin MigrationController: a filter of pods, and the limits of its jobs. No IO."""

from __future__ import annotations

from koord_descheduler.framework.node_fit import node_fit_obstacle
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.gang_group import gang_group
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.migration_controller.args import (
    EvictionGate,
    MigrationControllerArgs,
)
from koord_descheduler.plugins.migration_controller.object_limiters import ObjectLimiters
from koord_descheduler.plugins.migration_controller.who_may_move import (
    MovementRules,
    lasting_obstacle,
    passing_obstacle,
    scheduler_obstacle,
    workload_state,
)


class MigrationControllerPlugin(DeschedulerPlugin):
    """Says who may move; its moves become PodMigrationJobs (``koord_descheduler.migration``)."""

    name = "MigrationController"
    Args = MigrationControllerArgs
    evicts = True

    def __init__(self, args: MigrationControllerArgs) -> None:
        super().__init__(args)
        self.args = args
        self.rules = MovementRules(args)
        self.limiters = ObjectLimiters(args)
        self._nodes = args.nodes

    def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        workload = workload_state(pod, cluster.cluster)
        return scheduler_obstacle(pod, self.args) or lasting_obstacle(pod, self.rules, workload)

    def pre_eviction_filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        workload = workload_state(pod, cluster.cluster)
        fellows = gang_group(cluster.cluster, pod.key).keys
        in_sets = [move.pod for move in cluster.moves if move.is_pinned]
        return (
            passing_obstacle(pod, self.rules, cluster.moving, workload, fellows)
            or self.limiters.obstacle(pod, cluster.now, in_sets)
            or self._node_fit(pod, cluster)
        )

    def _node_fit(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        if not self.args.node_fit or self.args.skips(EvictionGate.NODE_FIT):
            return ""
        return node_fit_obstacle(pod, cluster, self._nodes)
