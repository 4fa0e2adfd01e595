"""What webhooks and profiles know of the cluster, followed on every replica."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from koord_kube.api import Api, Object
from koord_kube.informer import Informer
from koord_kube.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    QUOTA_PROFILES,
    Resource,
)
from koord_kube.watching import Pace

from koord_manager.controllers.slo_config import SLOConfigs
from koord_manager.webhooks.admission import ClusterView

_OBJECT = msgspec.json.Decoder(Object)
_RANDOM = random.SystemRandom()


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_LABELLED = msgspec.json.Decoder(_Labelled)


class FollowedCluster:
    """``view`` is what is known at this moment; objects of it are live.

    What only some webhook needs is followed where its gate is on. ``rules`` is the
    ConfigMap of the enhanced validator, "namespace/name".
    """

    def __init__(
        self,
        api: Api,
        configs: SLOConfigs,
        gates: Mapping[str, bool],
        *,
        config_map: str,
        rules: str,
        tell: Callable[[str], None],
        pace: Pace | None = None,
    ) -> None:
        self._configs = configs
        self._gates = gates
        self._config_map = config_map
        self._rules = rules
        self._follow = _Following(api, tell, pace)
        follow = self._follow
        self._profiles = follow.all(COLOCATION_PROFILES)
        self._namespaces = follow.all(NAMESPACES)
        self._priority_classes = follow.all(PRIORITY_CLASSES)
        self._quotas = follow.all(ELASTIC_QUOTAS, optional=True)
        trees = gates["MultiQuotaTree"]
        self._quota_profiles = follow.all(QUOTA_PROFILES, optional=True) if trees else {}
        overlaps = gates["ConfigMapValidatingWebhook"]
        self._node_labels = follow.labels(NODES) if overlaps else {}
        validator = gates["EnablePodEnhancedValidator"]
        self._enhanced = follow.one(CONFIG_MAPS, rules) if validator else {}

    @property
    def trouble(self) -> str:
        """Why the view is not complete, in a line; "" where it is."""
        if not self._configs.synced:
            return f"configmaps {self._config_map}: not read yet"
        return self._follow.trouble

    def view(self) -> ClusterView:
        """What is known now."""
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
        )

    async def run(self) -> None:
        """For ever."""
        await self._follow.run()


class _Following:
    """Several kinds of objects."""

    def __init__(self, api: Api, tell: Callable[[str], None], pace: Pace | None) -> None:
        self._api = api
        self._more: dict[str, Any] = {"tell": tell, "pace": pace}
        self._informers: list[tuple[Resource, Informer[Any]]] = []

    def all(self, resource: Resource, *, optional: bool = False) -> Mapping[str, Object]:
        """All objects of a kind, whole."""
        return self._add(resource, _OBJECT.decode, optional=optional)

    def one(self, resource: Resource, name: str) -> Mapping[str, Object]:
        """One object, "namespace/name"."""
        namespace, _, plain = name.partition("/")
        return self._add(resource, _OBJECT.decode, name=plain, namespace=namespace)

    def labels(self, resource: Resource) -> Mapping[str, Mapping[str, str]]:
        """The labels of all objects of a kind."""
        return self._add(resource, lambda raw: _LABELLED.decode(raw).metadata.labels or {})

    @property
    def trouble(self) -> str:
        return next(self._troubles(), "")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _, informer in self._informers:
                group.create_task(informer.run())

    def _troubles(self) -> Iterator[str]:
        for resource, informer in self._informers:
            if not (informer.synced or informer.absent):
                yield f"{resource.plural}: not read yet"

    def _add(
        self, resource: Resource, decode: Callable[[bytes], Any], **selected: Any
    ) -> Mapping[str, Any]:
        informer: Informer[Any] = Informer(
            self._api, resource, decode=decode, changed=_unheard, **selected, **self._more
        )
        self._informers.append((resource, informer))
        return informer.objects


def _unheard(_key: str, _before: object, _now: object) -> None:
    """Views are looked at when somebody asks."""
