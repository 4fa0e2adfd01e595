"""The scheduler's configuration, from the text of its file. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from koord_model.excerpt import excerpt
from msgspec.structs import replace

from koord_scheduler.arguments.problems import SchedulerConfigError, convert, problem, refuse_if
from koord_scheduler.config.component_config import (
    API_VERSION,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from koord_scheduler.config.document import parse_document
from koord_scheduler.config.extenders import configured_extenders, ignored_resources
from koord_scheduler.config.leader_election import (
    LeaderElectionSettings,
    leader_election_settings,
)
from koord_scheduler.config.profiles import AddedPlugins, ConfiguredProfile, configured_profile
from koord_scheduler.extenders.extender import Extender

KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
_QPS, _BURST, _CONTENT_TYPE = 50.0, 100, "application/vnd.kubernetes.protobuf"
"""Kubernetes' defaults of ``clientConnection``."""


@dataclass(frozen=True)
class SchedulerConfig:
    """All that the configuration says.

    ``kubeconfig`` is a path, "" for the pod's own account. ``qps`` below 0 means no limit. Pods
    that fit nowhere wait between the two backoffs, in seconds. ``enable_profiling``: flags may be
    changed at run time. ``without_effect`` has the fields that were set to something else than
    their default, and mean nothing here.
    """

    profiles: tuple[ConfiguredProfile, ...]
    leader_election: LeaderElectionSettings
    kubeconfig: str
    qps: float
    burst: int
    pod_initial_backoff: int
    pod_max_backoff: int
    parallelism: int
    delay_cache_until_active: bool
    enable_profiling: bool
    extenders: tuple[Extender, ...]
    without_effect: tuple[str, ...]


def default_scheduler_config() -> SchedulerConfig:
    """Return the configuration that holds without a file."""
    return scheduler_config({"apiVersion": API_VERSION, "kind": KIND})


def read_scheduler_config(text: str, added: AddedPlugins | None = None) -> SchedulerConfig:
    """The configuration in a YAML or JSON text; ``added`` are plugins of others.

    Raises:
        SchedulerConfigError: kube-scheduler would not start with it, or we cannot honour it.
    """
    return scheduler_config(parse_document(text), added)


def scheduler_config(
    document: Mapping[str, Any], added: AddedPlugins | None = None
) -> SchedulerConfig:
    """The configuration in a document.

    Raises:
        SchedulerConfigError: as ``read_scheduler_config``.
    """
    if document.get("kind") == "ConfigMap":
        raise SchedulerConfigError([_in_config_map(document)])
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(field) != expected:
            raise SchedulerConfigError([problem(field, document.get(field), expected)])
    given = convert(document, KubeSchedulerConfiguration)
    refuse_if(_problems(given))
    extenders = configured_extenders(given.extenders)
    ignored = ignored_resources(given.extenders)
    leader_election = leader_election_settings(given.leader_election)
    connection = given.client_connection
    profiles = _named(given.profiles or (KubeSchedulerProfile(),))
    refuse_if(_profile_problems(profiles))
    configured = tuple(
        configured_profile(
            profile,
            given.percentage_of_nodes_to_score,
            f"profiles[{place}]",
            added or {},
            ignored,
        )
        for place, profile in enumerate(profiles)
    )
    refuse_if(_template_problems(configured))
    return SchedulerConfig(
        configured,
        leader_election,
        connection.kubeconfig,
        connection.qps or _QPS,
        connection.burst or _BURST,
        given.pod_initial_backoff_seconds,
        given.pod_max_backoff_seconds,
        given.parallelism,
        given.delay_cache_until_active,
        given.enable_profiling,
        extenders,
        tuple(_without_effect(given)),
    )


def _in_config_map(document: Mapping[str, Any]) -> str:
    data = document.get("data")
    keys = ", ".join(map(excerpt, data)) if isinstance(data, dict) else ""
    where = f"the text under {keys} of its data" if keys else "the configuration"
    return f'kind is "ConfigMap"; expected {KIND}: put {where} into a file of its own'


def _without_effect(given: KubeSchedulerConfiguration) -> Iterator[str]:
    """Writes are slowed down by the API server's answers alone, and are always JSON."""
    connection = given.client_connection
    for field, value, default in (
        ("qps", connection.qps, _QPS),
        ("burst", connection.burst, _BURST),
        ("contentType", connection.content_type, _CONTENT_TYPE),
    ):
        if value not in (0, "", default):
            yield f"clientConnection.{field}"


def _problems(given: KubeSchedulerConfiguration) -> Iterator[str]:
    least, most = given.pod_initial_backoff_seconds, given.pod_max_backoff_seconds
    if most < least:
        yield problem("podMaxBackoffSeconds", most, f"podInitialBackoffSeconds ({least}) or more")


def _named(profiles: tuple[KubeSchedulerProfile, ...]) -> tuple[KubeSchedulerProfile, ...]:
    """The profiles; a single one without a name has Kubernetes' default."""
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        return (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    return profiles


def _template_problems(profiles: tuple[ConfiguredProfile, ...]) -> Iterator[str]:
    """Return the differences of templates between profiles: nodes have the same for all."""
    sharing = [
        (place, profile.args.device_share.gpu_shared_resource_templates_config)
        for place, profile in enumerate(profiles)
        if "DeviceShare" in profile.points.names()
    ]
    for place, templates in sharing[1:]:
        if templates != sharing[0][1]:
            path = f"profiles[{place}].DeviceShare.gpuSharedResourceTemplatesConfig"
            yield problem(path, {}, f"that of profiles[{sharing[0][0]}]")


def _profile_problems(profiles: tuple[KubeSchedulerProfile, ...]) -> Iterator[str]:
    names: set[str] = set()
    first = profiles[0].plugins.queue_sort
    for place, profile in enumerate(profiles):
        path = f"profiles[{place}]"
        if not profile.scheduler_name:
            yield problem(f"{path}.schedulerName", profile.scheduler_name, "a name")
        elif profile.scheduler_name in names:
            expected = "another name than that of the other profiles"
            yield problem(f"{path}.schedulerName", profile.scheduler_name, expected)
        names.add(profile.scheduler_name or "")
        if profile.plugins.queue_sort != first:
            yield problem(f"{path}.plugins.queueSort", {}, "that of profiles[0]")
