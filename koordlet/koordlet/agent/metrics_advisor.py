"""koordlet's observing side, put together from the settings."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from koord_host.filesystems import filesystem_space
from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Layout
from koord_host.netlink_sockets import TaskStats, TCPConnections
from koord_host.nvml import NVML
from koord_host.perf_events import PerfEvents
from koord_model.demand import amounts
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo
from koord_prediction.amount import ResourceAmount
from koord_prediction.peak import PeakPolicy
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.agent.config import KoordletSettings, node_name
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.node import DocumentSources
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metrics_advisor.collector_runner import CollectorRunner
from koordlet.metrics_advisor.collector_table import select_enabled
from koordlet.metrics_advisor.contract.collector import CollectorSources, LatestValues
from koordlet.prediction.predictor import (
    CheckpointDirectory,
    Predictor,
    TrainingSettings,
    node_allocatable,
)
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.state.informer_age import InformerAge

_log = get_log("koordlet.observer")

_STALE_ROUNDS = 20
"""Koordinator forgets a counter that was silent for so many intervals."""

_IMAGE_FS = {
    "containerd": "/var/lib/containerd",
    "docker": "/var/lib/docker",
    "cri-o": "/var/lib/containers",
}
"""Usual directories of images, by runtime."""

_FINISH_SECONDS = 5.0
"""Time for which a hanging collector or disk may keep koordlet from stopping."""

Ages = Callable[[], Mapping[str, InformerAge]]


@dataclass(frozen=True, slots=True)
class MetricsAdvisor:
    """Collectors and what they found, prediction, and what is shown of both."""

    observer: CollectorRunner
    predicting: Predictor
    observed: DocumentSources
    training_interval: float

    async def run(self) -> None:
        """Observe and learn until cancelled, then write down what was learnt."""
        # One thread alone touches the models, also at the end.
        predictor = ThreadPoolExecutor(1, "predictor")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.observer.run())
                group.create_task(self._learn(predictor))
        finally:
            await self._finish(predictor)

    async def _learn(self, predictor: Executor) -> None:
        await self._try(predictor, self._load)
        while True:
            await asyncio.sleep(self.training_interval)
            await self._try(predictor, self._step)

    async def _try(self, predictor: Executor, do: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(predictor, do)
        except Exception as error:
            # A defect of ours: what was predicted before stays.
            _log.error("prediction failed", reason=describe_error(error))

    def _load(self) -> None:
        self.predicting.load(time.time())

    def _step(self) -> None:
        self.predicting.train(time.time())
        self.predicting.checkpoint(time.time())

    def _keep(self) -> None:
        self.predicting.checkpoint(time.time(), everything=True)

    async def _finish(self, predictor: ThreadPoolExecutor) -> None:
        """Write down what was learnt and measured, once the threads are done with it."""
        try:
            # Not asyncio.timeout: in a task that is being cancelled, as this one is, Python
            # before 3.11.3 does not tell its own cancelling from the other.
            await asyncio.wait_for(self._keep_and_close(predictor), _FINISH_SECONDS)
        except TimeoutError:
            reason = f"a file or a driver has not answered for {_FINISH_SECONDS:g} s"
            _log.warning("latest samples and models are lost", reason=reason)
        predictor.shutdown(wait=False)

    async def _keep_and_close(self, predictor: Executor) -> None:
        await self._try(predictor, self._keep)
        await self.observer.finish()


def open_metrics_advisor(
    settings: KoordletSettings,
    gates: Mapping[str, bool],
    layout: Layout,
    tree: FileTree,
    pods: PodInformer,
    views: NodeViewBuilder,
    cluster: StatesInformer | None = None,
) -> MetricsAdvisor:
    """Be ready to observe."""
    deduplicator = LogDeduplicator()
    watched, off = select_enabled(asdict(settings), gates, _sources(settings, gates, layout, tree))
    cache = RingCache(
        _cache_path(settings), settings.tsdb_max_bytes, partial(_warn, deduplicator, "metric cache")
    )
    observer = CollectorRunner(
        watched,
        off,
        cache,
        pods.inventory.records,
        lambda: views.current.slo,
        pods_known=lambda: pods.known,
        outdated_seconds=settings.collect_sys_metric_outdated_interval,
    )
    checkpoints = settings.prediction_checkpoint_filepath or f"{settings.state_dir}/predictions"
    predicting = Predictor(
        _learning(settings),
        cache,
        CheckpointDirectory(checkpoints, partial(_warn, deduplicator, "prediction")),
        pods.inventory.records,
        partial(
            _allocatable,
            cluster,
            observer.newest,
            partial(_warn, deduplicator, "prediction"),
        ),
    )
    observed = DocumentSources(
        cache=cache,
        collectors=observer.states,
        latest=observer.newest,
        pods=pods.inventory.records,
        ages=partial(_ages, pods, cluster.ages if cluster else dict),
        peaks=lambda: _peaks(predicting),
        clock=time.time,
        predictions=predicting.by_predictor,
        training=lambda: predicting.training,
        node=node_name(settings, os.environ),
        read_only=settings.read_only,
        dry_run=settings.dry_run,
        weights=layout.weights if layout.version == 2 else None,
    )
    return MetricsAdvisor(observer, predicting, observed, settings.prediction_training_interval)


def _sources(
    settings: KoordletSettings, gates: Mapping[str, bool], layout: Layout, tree: FileTree
) -> CollectorSources:
    return CollectorSources(
        tree=tree,
        layout=layout,
        sys_root=settings.sys_root_dir,
        kubelet_dir=settings.var_lib_kubelet_dir,
        xpu_device_infos_dir=settings.xpu_device_infos_dir,
        jiffies_per_second=os.sysconf("SC_CLK_TCK"),
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        stale_seconds=_STALE_ROUNDS * settings.collect_res_used_interval,
        cpi_seconds=settings.cpi_collector_interval,
        image_fs_dir=settings.image_fs_dir or _IMAGE_FS[settings.default_runtime_type],
        filesystem=filesystem_space,
        perf=PerfEvents(),
        gpus=NVML() if gates["Accelerators"] else None,
        delays=TaskStats(),
        connections=TCPConnections(settings.proc_root_dir),
    )


def _cache_path(settings: KoordletSettings) -> str | None:
    if settings.tsdb_path == "none":
        return None
    return settings.tsdb_path or f"{settings.state_dir}/metrics"


def _learning(settings: KoordletSettings) -> TrainingSettings:
    return TrainingSettings(
        training_interval=settings.prediction_training_interval,
        cpu_halflife=settings.prediction_cpu_histogram_decay_halflife,
        memory_halflife=settings.prediction_memory_histogram_decay_halflife,
        expiration=settings.prediction_model_expiration_duration,
        checkpoint_interval=settings.prediction_model_checkpoint_interval,
        per_step=settings.prediction_model_checkpoint_max_per_step,
        rules=PeakPolicy(
            cpu_percentile=settings.prediction_percentile_cpu / 100,
            memory_percentile=settings.prediction_percentile_memory / 100,
            margin=settings.prediction_safety_margin_percent,
            cold_start=settings.prediction_cold_start_duration,
        ),
    )


def _allocatable(
    cluster: StatesInformer | None, latest: LatestValues, on_warning: Callable[[str], None]
) -> ResourceAmount | None:
    """Return the Node's amounts for pods; without a cluster, all of the machine's."""
    if cluster is not None:
        found = cluster.node()
        if found is None:
            return None
        annotations = found["metadata"].get("annotations") or {}
        amount, ignored = node_allocatable(
            annotations, amounts(found.get("status", {}).get("allocatable"))
        )
        if ignored:
            on_warning(ignored)
        return amount
    cpus, memory = latest.info(NodeCPUInfo), latest.info(NodeMemoryInfo)
    if cpus is None or memory is None:
        return None
    return ResourceAmount(float(len(cpus.online)), float(memory.total))


def _peaks(predicting: Predictor) -> Mapping[str, Mapping[str, float]] | None:
    prod = predicting.prediction.prod
    return None if prod is None else {"prod": {"cpu": prod.peak.cpu, "memory": prod.peak.memory}}


def _ages(pods: PodInformer, others: Ages) -> Mapping[str, InformerAge]:
    """Return the ages of the list of pods, where there is one, and of the API server's objects."""
    found = dict(others())
    if pods.source is not None:
        age = pods.age
        found["pods"] = InformerAge(age if age < float("inf") else None, pods.problem)
    return found


def _warn(deduplicator: LogDeduplicator, message: str, reason: str) -> None:
    if deduplicator.is_new(message, reason):
        _log.warning(message, reason=reason)
