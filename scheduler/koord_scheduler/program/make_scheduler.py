"""The scheduler that a configuration describes. No IO."""

from __future__ import annotations

from koord_scheduler.config.scheduler_config import SchedulerConfig
from koord_scheduler.framework.queue.scheduling_queue import SchedulingQueue
from koord_scheduler.framework.recording import Record, RecordingScheduler
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.program.gates import DEFAULTS, Gates
from koord_scheduler.state.cluster_state import ClusterState


def make_scheduler(
    config: SchedulerConfig,
    seed: int,
    record: Record | None = None,
    gates: Gates = DEFAULTS,
) -> Scheduler:
    """``seed`` decides between equally good nodes; ``record`` hears all that is decided."""
    profiles = [profile.guarded() for profile in config.profiles]
    nodes = ClusterState(seed=seed, gates=gates)
    queue = SchedulingQueue(config.pod_initial_backoff, config.pod_max_backoff)
    if record is None:
        return Scheduler(profiles, nodes=nodes, queue=queue, extenders=config.extenders)
    return RecordingScheduler(profiles, record, nodes=nodes, queue=queue)
