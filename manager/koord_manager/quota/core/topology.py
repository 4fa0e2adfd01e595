"""The quotas of the cluster by name, as a tree, and by the namespaces that they list. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from koord_model.elastic_quota import ElasticQuota, quota_of_pod, quotas_by_namespace

ADMITTED_SECONDS = 5.0
"""Life of an admitted quota until it is observed; after that it was not kept."""


def _zero() -> float:
    return 0.0


class QuotaTopology:
    """Quotas as an informer observes them, and those that were admitted since.

    So of two quotas that are created at once the second is judged with the first. Names are
    unique in the cluster; of several quotas of one name the first by namespace counts.
    """

    def __init__(
        self, quotas: Iterable[ElasticQuota] = (), monotonic: Callable[[], float] = _zero
    ) -> None:
        self._monotonic = monotonic
        self._observed: dict[str, ElasticQuota] = {}
        self._admitted: dict[str, tuple[float, ElasticQuota | None]] = {}
        self._current: dict[str, ElasticQuota] = {}
        self._names: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}
        self._by_namespace: Mapping[str, str] = {}
        self._indexed = False
        for quota in quotas:
            self.observe(key_of(quota), None, quota)

    def observe(self, key: str, _before: ElasticQuota | None, now: ElasticQuota | None) -> None:
        """The quota of that key is like that, or gone."""
        if now is None:
            self._observed.pop(key, None)
        else:
            self._observed[key] = now
        if key in self._admitted and _same(self._admitted[key][1], now):
            del self._admitted[key]
        if key not in self._admitted:
            self._place(key, now)

    def admit(self, key: str, quota: ElasticQuota | None) -> None:
        """The quota of that key will be like that, or gone, unless somebody else refuses it."""
        self._admitted[key] = self._monotonic() + ADMITTED_SECONDS, quota
        self._place(key, quota)

    def current(self, key: str) -> ElasticQuota | None:
        """The quota of that key, as it is or is about to be."""
        self._expire()
        return self._current.get(key)

    def all_of(self, name: str) -> tuple[ElasticQuota, ...]:
        """The quotas of a name: at most one, if all is well."""
        self._index()
        return tuple(self._current[key] for key in self._names.get(name, ()))

    def every(self) -> Mapping[str, ElasticQuota]:
        """The quotas by name, as ``named`` has them."""
        self._index()
        return {name: self._current[keys[0]] for name, keys in self._names.items()}

    def named(self, name: str) -> ElasticQuota | None:
        """The quota of a name."""
        return next(iter(self.all_of(name)), None)

    def children(self, name: str) -> tuple[ElasticQuota, ...]:
        """The quotas whose parent has that name."""
        self._index()
        return tuple(self._current[key] for key in self._children.get(name, ()))

    def listing(self, namespace: str) -> tuple[ElasticQuota, ...]:
        """The quotas whose annotation lists a namespace."""
        self._expire()
        return tuple(quota for quota in self._current.values() if namespace in quota.namespaces)

    def name_for_pod(
        self, labels: Mapping[str, str], namespace: str, *, default_quota: bool = True
    ) -> str:
        """The name of the quota that a pod belongs to; see ``quota_of_pod``."""
        self._index()
        return quota_of_pod(
            labels, namespace, self._by_namespace, self._names, default_quota=default_quota
        )

    def name_for_namespace(self, namespace: str) -> str:
        """The name of the quota that a namespace's pods belong to without a label; "" for none."""
        self._index()
        return self._by_namespace.get(namespace, "")

    def _place(self, key: str, quota: ElasticQuota | None) -> None:
        before = self._current.get(key)
        if quota is None:
            self._current.pop(key, None)
        else:
            self._current[key] = quota
        self._indexed = self._indexed and _place_of(before) == _place_of(quota)

    def _index(self) -> None:
        self._expire()
        if self._indexed:
            return
        self._names, self._children = {}, {}
        for key, quota in sorted(self._current.items()):
            self._names.setdefault(quota.name, []).append(key)
            self._children.setdefault(quota.parent, []).append(key)
        self._by_namespace = quotas_by_namespace(self._current.values())
        self._indexed = True

    def _expire(self) -> None:
        now = self._monotonic()
        for key in [key for key, (until, _) in self._admitted.items() if until < now]:
            del self._admitted[key]
            self._place(key, self._observed.get(key))


def key_of(quota: ElasticQuota) -> str:
    """Return its key in informers: "namespace/name"."""
    return f"{quota.namespace}/{quota.name}"


def _place_of(quota: ElasticQuota | None) -> tuple[object, ...] | None:
    return None if quota is None else (quota.name, quota.parent, quota.namespaces)


def _same(admitted: ElasticQuota | None, observed: ElasticQuota | None) -> bool:
    """True if they differ at most in parts that are not the author's."""
    if admitted is None or observed is None:
        return admitted is observed
    return admitted == replace(
        observed,
        uid=admitted.uid,
        used=admitted.used,
        guaranteed=admitted.guaranteed,
        allocated=admitted.allocated,
        child_request=admitted.child_request,
        unschedulable_resource=admitted.unschedulable_resource,
        total_resource=admitted.total_resource,
        runtime=admitted.runtime,
    )
