"""The evictor and its backend, as the settings want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.core.events import EventSource
from koord_kube.event_recorder import EventRecorder
from koord_kube.pod_evictor import PodEvictor
from koord_service.logs import get_log

from koordlet.agent.config import KoordletSettings
from koordlet.agent.states_informer import StatesInformer
from koordlet.qos_manager.eviction.api_eviction import EvictionApiBackend
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend
from koordlet.qos_manager.eviction.evictor import Evictor
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.eviction.policy.backend import EvictionBackend
from koordlet.qos_manager.eviction.policy.events import COMPONENT
from koordlet.qos_manager.eviction.policy.guard import own_names

if TYPE_CHECKING:
    from koord_kube.client import Client

_log = get_log("koordlet.evictor")

_MOST_BYTES_OF_EVENTS = 256 << 10


def open_evictor(
    settings: KoordletSettings, cluster: StatesInformer | None, environ: Mapping[str, str]
) -> Evictor:
    """Be ready to evict, as the settings say."""
    client = cluster.client if cluster is not None and not settings.only_observes else None
    way, why_not = _backend(settings, client)
    if settings.evict_dry_run:
        why_not = "--evict-dry-run"
    if settings.only_observes:
        why_not = "--dry-run" if settings.dry_run else "--read-only"
    limits = EvictionLimits(
        settings.evictions_per_minute,
        settings.cpu_evict_cool_time_seconds,
        settings.memory_evict_cool_time_seconds,
        # The look after the next one began when it was gone.
        settles=2 * settings.collect_res_used_interval + 1,
    )
    recorder = _recorder(client, cluster.name) if client is not None and cluster else None
    return Evictor(way, limits, recorder, why_not=why_not, own=own_names(environ))


def _recorder(client: Client, node: str) -> EventRecorder:
    writer = BackgroundWriter(
        TaskSubmitter(client.write).submit,
        client.backoff,
        most_bytes=_MOST_BYTES_OF_EVENTS,
        on_warning=lambda reason: _log.warning("Events are not written", reason=reason),
    )
    return EventRecorder(writer, EventSource(COMPONENT, node))


def _backend(
    settings: KoordletSettings, client: Client | None
) -> tuple[EvictionBackend | None, str]:
    """The backend in the settings; by default the API, if there is one."""
    if client is not None and (settings.only_evict_by_api or not settings.evict_by_stop):
        return EvictionApiBackend(PodEvictor(client.write, client.backoff)), ""
    if settings.only_evict_by_api:
        return None, "--only-evict-by-api, and there is no Kubernetes API"
    return ContainerStopBackend(settings.container_runtime_endpoint), ""
