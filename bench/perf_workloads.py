"""The shapes of kube-scheduler's own performance tests: how many nodes and pods, and of what kind.

Names, numbers and thresholds are those of Kubernetes' test/integration/scheduler_perf, of the
workloads that its CI measures (``performance-config.yaml`` of misc @008b3652, affinity @1bd6a8f3,
topology_spreading @05377107 and volumes @240d43d6). Left out are those of plugins that are not
built (dynamic resources, groups of pods), those without a threshold but for PreemptionBasic, and
SchedulingDeletedPodsWithFinalizers: there is no queue here in which pods go before they are placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from koord_kube.protocol.resources import (
    CSI_NODES,
    NAMESPACES,
    SERVICES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)

Object = dict[str, Any]
Template = Callable[[int], Object]
"""A pod by its number among those of a group."""

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_DRIVER = "ebs.csi.aws.com"
_TEAM = {"team": "devops"}


@dataclass(frozen=True, slots=True)
class Group:
    """So many pods or nodes of a template."""

    count: int
    template: Template


@dataclass(frozen=True, slots=True)
class Churn:
    """Churn beside the load: each ``seconds`` of the scheduler's CPU another pod comes.

    ``is_recreated``: the one before it goes, and with it a node. ``deletes``: no pod comes, but
    one of those placed at the beginning, or waiting, goes.
    """

    seconds: float
    template: Template | None = None
    is_recreated: bool = False
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """``threshold`` is the pods a second below which kube-scheduler's CI fails."""

    name: str
    threshold: float
    nodes: tuple[Group, ...]
    measured: Group
    initial: tuple[Group, ...] = ()
    churn: Churn | None = None
    others: Callable[[], Iterator[tuple[Resource, Object]]] = lambda: iter(())

    def scaled(self, share: float) -> Workload:
        """The same with less of everything."""

        def less(groups: tuple[Group, ...]) -> tuple[Group, ...]:
            return tuple(
                Group(max(1, int(group.count * share)), group.template) for group in groups
            )

        (measured,) = less((self.measured,))
        nodes, initial = less(self.nodes), less(self.initial)
        return Workload(
            self.name, self.threshold, nodes, measured, initial, self.churn, self.others
        )


# ---- nodes


def _node(
    number: int,
    *,
    zones: tuple[str, ...] = (),
    taints: tuple[Object, ...] = (),
    more: Callable[[int], Object] = lambda _: {},
    name: str = "",
    pods: int = 110,
) -> Object:
    name = name or f"scheduler-perf-{'tainted-' if taints else ''}{number}"
    labels = {HOST: name} | ({ZONE: zones[number % len(zones)]} if zones else {})
    amounts = {"pods": str(pods), "cpu": "4", "memory": "32Gi"} | more(number)
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {"name": name, "labels": labels}
    return {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status}


def _nodes(count: int = 5_000, **more: Any) -> tuple[Group, ...]:
    return (Group(count, partial(_node, **more)),)


_MOONS = ("moon-1", "moon-2", "moon-3")
_NAMED = Group(1, partial(_node, name="scheduler-perf-node", pods=90_000))

# ---- pods

_SMALL = {"cpu": "100m", "memory": "500Mi"}


def _pod(
    number: int,
    *,
    namespace: str | Callable[[int], str] = "default",
    labels: Object | None = None,
    requests: Object | None = None,
    **spec: Any,
) -> Object:
    namespace = namespace if isinstance(namespace, str) else namespace(number)
    resources = {"requests": _SMALL if requests is None else requests}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    metadata = {"namespace": namespace, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def _template(**what: Any) -> Template:
    return partial(_pod, **what)


def _term(color: str, key: str, **where: Any) -> Object:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key, **where}


def _affinity(kind: str, color: str, key: str, *, prefers: bool = False, **where: Any) -> Template:
    """A pod near to, or away from, those of its color."""
    here = {name: where.pop(name) for name in ("namespace",) if name in where}
    term = _term(color, key, **(where or {"namespaces": ["sched-0", "sched-1"]}))
    when = "DuringSchedulingIgnoredDuringExecution"
    terms = (
        {f"preferred{when}": [{"weight": 1, "podAffinityTerm": term}]}
        if prefers
        else {f"required{when}": [term]}
    )
    return _template(labels={"color": color}, affinity={kind: terms}, **here)


def _spread(key: str, when: str, skew: int, labels: Object, **policies: str) -> Template:
    constraint = {
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "maxSkew": skew,
        "labelSelector": {"matchLabels": labels},
        **policies,
    }
    return _template(labels=labels, topologySpreadConstraints=[constraint])


def _by_fields(field: str, key: str, *values: str) -> Object:
    terms = [{field: [{"key": key, "operator": "In", "values": list(values)}]}]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


_NEAR, _AWAY = "podAffinity", "podAntiAffinity"
_LOW = _template(requests={"cpu": "900m", "memory": "500Mi"})
_HIGH = _template(requests={"cpu": "3", "memory": "500Mi"}, priority=10)
_TOO_LARGE = _template(requests={"cpu": "9", "memory": "500Mi"}, priority=10)
_LIGHT = _template(requests={})
_SECRET = _template(volumes=[{"name": "secret", "secret": {"secretName": "secret"}}])

# ---- volumes


def _claiming(prefix: str, template: Template) -> Template:
    """Each pod has a claim of its own, which is bound."""

    def made(number: int) -> Object:
        pod = template(number)
        claim = {"claimName": f"{prefix}-{number}"}
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
        return pod

    return made


_CSI: Object = {"csi": {"driver": _DRIVER}}
_AWS: Object = {"awsElasticBlockStore": {}}


def _volumes(kind: Object, **prefixes: int) -> Iterator[tuple[Resource, Object]]:
    for prefix, count in prefixes.items():
        for number in range(count):
            name = f"{prefix}-{number}"
            source = {key: _of_volume(key, one, name) for key, one in kind.items()}
            modes, amount = ["ReadOnlyMany"], {"storage": "1Gi"}
            reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
            spec = {"accessModes": modes, "capacity": amount, "claimRef": reference, **source}
            yield VOLUMES, {"metadata": {"name": name}, "spec": spec}
            bound = {"pv.kubernetes.io/bind-completed": "true"}
            metadata = {"name": name, "namespace": "default", "annotations": bound}
            wants = {"accessModes": modes, "resources": {"requests": amount}, "volumeName": name}
            yield VOLUME_CLAIMS, {"metadata": metadata, "spec": wants, "status": {"phase": "Bound"}}


def _of_volume(kind: str, source: Object, name: str) -> Object:
    return {**source, "volumeHandle" if kind == "csi" else "volumeID": name}


def _csi_nodes(count: int, *, migrates: bool) -> Iterator[tuple[Resource, Object]]:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    for number in range(count):
        name = f"scheduler-perf-{number}"
        metadata = {"name": name} | ({"annotations": annotations} if migrates else {})
        driver = {"name": _DRIVER, "nodeID": name, "allocatable": {"count": 39}}
        yield CSI_NODES, {"metadata": metadata, "spec": {"drivers": [driver]}}


def _csi_volumes() -> Iterator[tuple[Resource, Object]]:
    yield from _csi_nodes(5_000, migrates=False)
    yield from _volumes(_CSI, first=5_000, second=5_000)


def _migrated_volumes() -> Iterator[tuple[Resource, Object]]:
    yield from _csi_nodes(5_000, migrates=True)
    yield from _volumes(_AWS, first=5_000, second=5_000)


# ---- other objects


def _teams() -> Iterator[tuple[Resource, Object]]:
    for name in ("measure-ns-0", *(f"init-ns-{number}" for number in range(100))):
        yield NAMESPACES, {"metadata": {"name": name, "labels": _TEAM}}


def _service() -> Iterator[tuple[Resource, Object]]:
    selector = {"app": "scheduler-perf"}
    metadata = {"name": "service", "namespace": "service-ns"}
    yield SERVICES, {"metadata": metadata, "spec": {"selector": selector}}


def _of_teams(kind: str, color: str, key: str, *, prefers: bool = False) -> tuple[Template, ...]:
    """Those of a hundred namespaces, and those that are measured."""
    selector = {"namespaceSelector": {"matchLabels": _TEAM}}
    made = partial(_affinity, kind, color, key, prefers=prefers, **selector)
    return made(namespace=lambda number: f"init-ns-{number % 100}"), made(namespace="measure-ns-0")


_AWAY_TEAM = _of_teams(_AWAY, "green", HOST)
_AWAY_TEAM_SOFT = _of_teams(_AWAY, "yellow", HOST, prefers=True)
_NEAR_TEAM = _of_teams(_NEAR, "blue", ZONE)
_NEAR_TEAM_SOFT = _of_teams(_NEAR, "red", HOST, prefers=True)


def _of_colors(kind: str, color: str, key: str, *, prefers: bool = False) -> tuple[Template, ...]:
    made = partial(_affinity, kind, color, key, prefers=prefers)
    return made(namespace="sched-0"), made(namespace="sched-1")


_AWAY_COLOR = _of_colors(_AWAY, "green", HOST)
_NEAR_COLOR = _of_colors(_NEAR, "blue", ZONE)
_NEAR_SOFT = _of_colors(_NEAR, "red", HOST, prefers=True)
_AWAY_SOFT = _of_colors(_AWAY, "yellow", HOST, prefers=True)
_APP = {"app": "scheduler-perf"}
_GATED_NEAR = _template(
    labels=_APP,
    requests={},
    schedulingGates=[{"name": "scheduling-gate-1"}],
    affinity={
        _NEAR: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": _APP}, "topologyKey": HOST}
            ]
        }
    },
)
_GATED = _template(requests={}, schedulingGates=[{"name": "test.k8s.io/hold"}])
_DEFAULT = _template()
_HONOR = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
_TAINTED = Group(1_000, partial(_node, taints=({"key": "foo", "effect": "NoSchedule"},)))


def _own_resource(number: int) -> Object:
    return {f"foo.com/bar-{number}": "1"}


def _own_resource_pod(number: int) -> Object:
    return _pod(number, requests=_own_resource(number))


WORKLOADS = (
    Workload("SchedulingBasic", 810, _nodes(), Group(50_000, _DEFAULT), (Group(5_000, _DEFAULT),)),
    Workload(
        "SchedulingDaemonset",
        1_100,
        (_NAMED, *_nodes(15_000)),
        Group(
            30_000,
            _template(
                requests={},
                affinity=_by_fields("matchFields", "metadata.name", "scheduler-perf-node"),
            ),
        ),
    ),
    Workload(
        "PreemptionAsync",
        570,
        _nodes(),
        Group(5_000, _DEFAULT),
        (Group(20_000, _LOW),),
        Churn(0.2, _HIGH),
    ),
    Workload("PreemptionBasic", 0, _nodes(1_000), Group(1_000, _HIGH), (Group(4_000, _LOW),)),
    Workload(
        "Unschedulable",
        600,
        _nodes(),
        Group(10_000, _DEFAULT),
        (Group(20_000, _DEFAULT),),
        Churn(0.2, _TOO_LARGE),
    ),
    Workload(
        "SchedulingWithMixedChurn",
        710,
        _nodes(),
        Group(10_000, _DEFAULT),
        churn=Churn(1.0, _TOO_LARGE, is_recreated=True),
    ),
    Workload(
        "SchedulingWhileGated",
        910,
        (_NAMED,),
        Group(20_000, _LIGHT),
        (Group(20_000, _LIGHT), Group(10_000, _GATED)),
        Churn(0.02, deletes=True),
    ),
    Workload(
        "SchedulingWithExtendedResource",
        180,
        _nodes(more=_own_resource),
        Group(5_000, _own_resource_pod),
    ),
    Workload(
        "SchedulingPodAntiAffinity",
        60,
        _nodes(),
        Group(2_000, _AWAY_COLOR[1]),
        (Group(1_000, _AWAY_COLOR[0]),),
    ),
    Workload(
        "SchedulingPodMatchingAntiAffinity",
        595,
        _nodes(),
        Group(5_000, _template(labels={"color": "green"}, namespace="sched-1")),
        (Group(1_000, _AWAY_COLOR[0]),),
    ),
    Workload(
        "SchedulingPodAffinity",
        35,
        _nodes(zones=("zone1",)),
        Group(5_000, _NEAR_COLOR[1]),
        (Group(5_000, _NEAR_COLOR[0]),),
    ),
    Workload(
        "SchedulingPreferredPodAffinity",
        90,
        _nodes(),
        Group(5_000, _NEAR_SOFT[1]),
        (Group(5_000, _NEAR_SOFT[0]),),
    ),
    Workload(
        "SchedulingPreferredPodAntiAffinity",
        90,
        _nodes(),
        Group(5_000, _AWAY_SOFT[1]),
        (Group(5_000, _AWAY_SOFT[0]),),
    ),
    Workload(
        "SchedulingNodeAffinity",
        220,
        _nodes(zones=("zone1",)),
        Group(10_000, _template(affinity=_by_fields("matchExpressions", ZONE, "zone1", "zone2"))),
        (Group(5_000, _template(affinity=_by_fields("matchExpressions", ZONE, "zone1", "zone2"))),),
    ),
    Workload(
        "MixedSchedulingBasePod",
        140,
        _nodes(zones=("zone1",)),
        Group(5_000, _DEFAULT),
        (
            Group(2_000, _template(namespace="sched-0")),
            *(Group(2_000, one[0]) for one in (_NEAR_COLOR, _AWAY_COLOR, _NEAR_SOFT, _AWAY_SOFT)),
        ),
    ),
    Workload(
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        24,
        _nodes(6_000),
        Group(2_000, _AWAY_TEAM[1]),
        (Group(4_000, _AWAY_TEAM[0]),),
        others=_teams,
    ),
    Workload(
        "SchedulingPreferredAntiAffinityWithNSSelector",
        55,
        _nodes(),
        Group(2_000, _AWAY_TEAM_SOFT[1]),
        (Group(4_000, _AWAY_TEAM_SOFT[0]),),
        others=_teams,
    ),
    Workload(
        "SchedulingRequiredPodAffinityWithNSSelector",
        35,
        _nodes(zones=("zone1",)),
        Group(2_000, _NEAR_TEAM[1]),
        (Group(5_000, _NEAR_TEAM[0]),),
        others=_teams,
    ),
    Workload(
        "SchedulingPreferredAffinityWithNSSelector",
        90,
        _nodes(),
        Group(5_000, _NEAR_TEAM_SOFT[1]),
        (Group(5_000, _NEAR_TEAM_SOFT[0]),),
        others=_teams,
    ),
    Workload(
        "SchedulingGatedPodsWithPodAffinityImpactForThroughput",
        110,
        (_NAMED,),
        Group(20_000, _template(labels=_APP, requests={})),
        (Group(10_000, _GATED_NEAR),),
    ),
    Workload(
        "TopologySpreading",
        460,
        _nodes(zones=_MOONS),
        Group(5_000, _spread(ZONE, "DoNotSchedule", 5, {"color": "blue"})),
        (Group(5_000, _DEFAULT),),
    ),
    Workload(
        "PreferredTopologySpreading",
        340,
        _nodes(zones=_MOONS),
        Group(5_000, _spread(ZONE, "ScheduleAnyway", 5, {"color": "blue"})),
        (Group(5_000, _DEFAULT),),
    ),
    Workload(
        "DefaultTopologySpreading",
        160,
        _nodes(zones=_MOONS),
        Group(50_000, _template(namespace="service-ns", labels=_APP, requests={})),
        (Group(5_000, _DEFAULT),),
        others=_service,
    ),
    Workload(
        "SchedulingWithNodeInclusionPolicy",
        270,
        (*_nodes(4_000), _TAINTED),
        Group(4_000, _spread(HOST, "DoNotSchedule", 1, {"foo": "bar"}, **_HONOR)),
    ),
    Workload("SchedulingSecrets", 790, _nodes(), Group(10_000, _SECRET), (Group(1_000, _SECRET),)),
    Workload(
        "SchedulingInTreePVs",
        290,
        _nodes(),
        Group(2_000, _claiming("second", _DEFAULT)),
        (Group(1_000, _claiming("first", _DEFAULT)),),
        others=partial(_volumes, _AWS, first=1_000, second=2_000),
    ),
    Workload(
        "SchedulingMigratedInTreePVs",
        100,
        _nodes(),
        Group(5_000, _claiming("second", _DEFAULT)),
        (Group(5_000, _claiming("first", _DEFAULT)),),
        others=_migrated_volumes,
    ),
    Workload(
        "SchedulingCSIPVs",
        100,
        _nodes(),
        Group(5_000, _claiming("second", _DEFAULT)),
        (Group(5_000, _claiming("first", _DEFAULT)),),
        others=_csi_volumes,
    ),
)
