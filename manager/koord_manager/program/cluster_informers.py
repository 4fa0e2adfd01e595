"""View of the cluster for webhooks and profiles, followed on every replica."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

import msgspec
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    QUOTA_PROFILES,
)
from koord_kube.shared_informers import SharedInformers
from koord_model import elastic_quota
from koord_model.elastic_quota import ElasticQuota

from koord_manager.pod_webhook.binding_policy import BindingPolicy
from koord_manager.program.cluster_queries import ClusterQueries
from koord_manager.quota.charging import QuotaCharger
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.resize.core.sources import RESIZE_SOURCES, SourceIndex
from koord_manager.slo_config.informer import SLOConfigInformer
from koord_manager.webhooks.cluster_view import ClusterView

_OBJECT = msgspec.json.Decoder(Object)
_RANDOM = random.SystemRandom()


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_LABELLED = msgspec.json.Decoder(_Labelled)


class ClusterInformers:
    """``view`` is what is known at this moment; objects of it are live.

    What only some webhook needs is followed where its gate is on. ``rules`` is the
    ConfigMap of the enhanced validator, "namespace/name". ``charger`` charges quotas for pods.
    ``recorder`` writes Events whether or not this manager leads.
    """

    def __init__(
        self,
        api: Api,
        configs: SLOConfigInformer,
        gates: Mapping[str, bool],
        *,
        config_map: str,
        rules: str,
        binding: BindingPolicy,
        charger: QuotaCharger,
        recorder: EventRecorder,
        on_warning: Callable[[str], None],
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._configs = configs
        self._gates = gates
        self._config_map = config_map
        self._rules = rules
        self._binding = binding
        self._charger = charger
        self._recorder = recorder
        self._queries = ClusterQueries(api)
        self._on_warning = on_warning
        self._informers = SharedInformers(api, on_warning=on_warning, timing=pace)
        get = self._informers.get
        self._profiles = get(COLOCATION_PROFILES, _OBJECT.decode).objects
        self._namespaces = get(NAMESPACES, _OBJECT.decode).objects
        self._priority_classes = get(PRIORITY_CLASSES, _OBJECT.decode).objects
        self._quotas = QuotaTopology(monotonic=time.monotonic)
        get(ELASTIC_QUOTAS, self._quota, optional=True).subscribe(self._quotas.observe)
        self._quota_profiles: Mapping[str, Object] = {}
        if gates["MultiQuotaTree"]:
            self._quota_profiles = get(QUOTA_PROFILES, _OBJECT.decode, optional=True).objects
        self._node_labels: Mapping[str, Mapping[str, str]] = {}
        if gates["ConfigMapValidatingWebhook"]:
            self._node_labels = get(NODES, _labels).objects
        self._resizes = SourceIndex()
        if gates["PodResize"]:
            for resource, read in RESIZE_SOURCES.items():
                get(resource, read, optional=True).subscribe(self._resizes.follow(resource))
        self._enhanced: Mapping[str, Object] = {}
        if gates["EnablePodEnhancedValidator"]:
            namespace, _, name = rules.partition("/")
            informer = get(CONFIG_MAPS, _OBJECT.decode, name=name, namespace=namespace)
            self._enhanced = informer.objects

    @property
    def problem(self) -> str:
        """Reason why the view is not complete, in a line; "" if it is."""
        if not self._configs.synced:
            return f"configmaps {self._config_map}: not read yet"
        unread = (
            resource.plural
            for resource, informer in self._informers
            if not (informer.synced or informer.absent)
        )
        plural = next(unread, "")
        return f"{plural}: not read yet" if plural else ""

    @property
    def quotas(self) -> Mapping[str, ElasticQuota]:
        """The quotas by name."""
        return self._quotas.every()

    def view(self) -> ClusterView:
        """Return the present view."""
        rules = self._enhanced.get(self._rules) or {}
        return ClusterView(
            profiles=self._profiles,
            namespaces=self._namespaces,
            priority_classes=self._priority_classes,
            quotas=self._quotas,
            quota_profiles=self._quota_profiles,
            config=self._configs.data,
            config_map=self._config_map,
            node_labels=self._node_labels,
            enhanced_validation=rules.get("data") or {},
            gates=self._gates,
            chance=_RANDOM.random,
            binding=self._binding,
            has_pods=self._queries.has_pods,
            pod=self._queries.pod,
            charge=self._charger.charge,
            record=self._record,
            resize_sources=self._resizes,
            wall=time.time,
        )

    def _record(self, regarding: Object, reason: str, message: str) -> None:
        self._recorder.record(regarding, reason, message, warning=True)

    def _quota(self, raw: bytes) -> ElasticQuota:
        quota, ignored = elastic_quota.parse(_OBJECT.decode(raw))
        for line in ignored:
            self._on_warning(line)
        return quota

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self._informers.run()


def _labels(raw: bytes) -> Mapping[str, str]:
    return _LABELLED.decode(raw).metadata.labels or {}
