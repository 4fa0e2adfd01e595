"""Random configurations of kube-scheduler, right ones and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

from tests.support.clusters.cluster import ARGS
from tests.support.clusters.selectors import chance, some

Object = dict[str, Any]

API_VERSION = "kubescheduler.config.k8s.io/v1"
_POINTS = {
    "preEnqueue": ["SchedulingGates", "DefaultPreemption", "GangScheduling", "DynamicResources"],
    "queueSort": ["PrioritySort"],
    "preFilter": [
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
        "VolumeBinding",
        "NodeDeclaredFeatures",
    ],
    "filter": [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
        "VolumeZone",
    ],
    "postFilter": ["DefaultPreemption", "DynamicResources"],
    "preScore": [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "InterPodAffinity",
        "PodTopologySpread",
    ],
    "score": [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "InterPodAffinity",
        "PodTopologySpread",
        "VolumeBinding",
    ],
    "reserve": ["VolumeBinding", "DynamicResources"],
    "permit": ["GangScheduling"],
    "preBind": ["VolumeBinding", "DynamicResources"],
    "bind": ["DefaultBinder"],
    "postBind": [],
    "placementGenerate": ["TopologyPlacementGenerator"],
    "placementScore": ["PodGroupPodsCount", "NodeResourcesFit"],
}
_PAIRS = [("preFilter", "filter"), ("preScore", "score")]
_EVERYWHERE = sorted({name for names in _POINTS.values() for name in names})
_STRANGE = ["Coscheduling", "LoadAwareScheduling", "NodePreferAvoidPods", "EBSLimits", "", "*"]


def _one(rng: Random, right: list[Any], wrong: list[Any]) -> Any:
    """Mostly one of the right values."""
    return rng.choice(wrong if chance(rng, 0.04) else right)


def random_config(rng: Random) -> str:
    """The text of a configuration file; some two thirds of them kube-scheduler takes."""
    document: Object = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    for name, make in _SETTINGS.items():
        if chance(rng, 0.2):
            document[name] = make(rng)
    if chance(rng, 0.9):
        number = rng.choice([1, 1, 1, 1, 2, 2, 3])
        document["profiles"] = [_profile(rng, place, number) for place in range(number)]
    if chance(rng, 0.03):
        document["extenders"] = [{"urlPrefix": "http://127.0.0.1:80", "filterVerb": "filter"}]
    for _ in range(rng.choice([0] * 12 + [1, 1, 2])):
        _spoil(rng, document)
    return _text(rng, document)


def _leader_election(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.5):
        found["leaderElect"] = chance(rng, 0.6)
    for name, times in _TIMES.items():
        if chance(rng, 0.3):
            found[name] = _one(rng, times, ["-5s", "10", "", "2s", "12s", "11.9s", "1m30s"])
    for name in ("resourceName", "resourceNamespace"):
        if chance(rng, 0.2):
            found[name] = rng.choice(["koord-scheduler", "koordinator-system", ""])
    if chance(rng, 0.1):
        found["resourceLock"] = _one(rng, ["leases", ""], ["endpoints"])
    return found


def _client_connection(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.5):
        found["kubeconfig"] = "/etc/kubernetes/scheduler.conf"
    if chance(rng, 0.4):
        found["qps"] = rng.choice([0, 5, 100.0, 0.5, -1, 2000])
    if chance(rng, 0.4):
        found["burst"] = _one(rng, [0, 1, 200], [-1])
    if chance(rng, 0.2):
        found["contentType"] = "application/json"
    return found


_TIMES = {
    "leaseDuration": ["0s", "15s", "1m", "1m30s", "1.5h", "20000ms"],
    "renewDeadline": ["0s", "10s", "12s"],
    "retryPeriod": ["0s", "2s", "5s", "500ms"],
}
_SETTINGS: dict[str, Callable[[Random], Any]] = {
    "parallelism": lambda rng: _one(rng, [1, 4, 16, 32], [0, -1]),
    "leaderElection": _leader_election,
    "clientConnection": _client_connection,
    "enableProfiling": lambda rng: chance(rng, 0.5),
    "percentageOfNodesToScore": lambda rng: _one(rng, [0, 5, 50, 100], [-1, 101]),
    "podInitialBackoffSeconds": lambda rng: _one(rng, [1, 2, 5], [0, 11, -1]),
    "podMaxBackoffSeconds": lambda rng: _one(rng, [10, 60], [0, 1, 2]),
    "delayCacheUntilActive": lambda rng: chance(rng, 0.5),
}


def _profile(rng: Random, place: int, number: int) -> Object:
    found: Object = {}
    if number > 1 or chance(rng, 0.6):
        names = ["default-scheduler", "koord-scheduler", "batch"]
        found["schedulerName"] = rng.choice(names) if chance(rng, 0.05) else names[place]
    if chance(rng, 0.1):
        found["percentageOfNodesToScore"] = _one(rng, [0, 10, 100], [-1])
    if chance(rng, 0.8):
        plugins: Object = {}
        for _ in range(rng.choice([1, 1, 2, 2, 3])):
            (rng.choice(_CHANGES) if chance(rng, 0.98) else _strange)(rng, plugins)
        found["plugins"] = plugins
    if chance(rng, 0.5):
        names = some(rng, [*_ARGS], 1, 3) + (["NodeName"] if chance(rng, 0.1) else [])
        found["pluginConfig"] = [_plugin_config(rng, name) for name in names]
    return found


def _plugin(rng: Random, name: str, weight: float = 0.4) -> Object:
    found: Object = {"name": name}
    if chance(rng, weight):
        found["weight"] = rng.choice([1, 2, 3, 5, 10, 100, 0, 5000] + [-1] * chance(rng, 0.05))
    return found


def _set(plugins: Object, point: str) -> Object:
    found: Object = plugins.setdefault(point, {})
    return found


def _add(plugins: Object, point: str, field: str, items: list[Object]) -> None:
    own = _set(plugins, point)
    own[field] = own.get(field, []) + items


def _chosen_everywhere(rng: Random, plugins: Object) -> None:
    """All default plugins off, some on again."""
    names = some(rng, _EVERYWHERE, 4, 18)
    for name in ("PrioritySort", "DefaultBinder"):
        if name not in names and chance(rng, 0.93):
            names.append(name)
    rng.shuffle(names)
    _add(plugins, "multiPoint", "disabled", [{"name": "*"}])
    _add(plugins, "multiPoint", "enabled", [_plugin(rng, name) for name in names])


def _changed_everywhere(rng: Random, plugins: Object) -> None:
    """Some plugins off, some with other weights, perhaps one of them twice."""
    droppable = [name for name in _EVERYWHERE if name not in ("PrioritySort", "DefaultBinder")]
    if chance(rng, 0.7):
        off = [{"name": name} for name in some(rng, droppable, 1, 3)]
        _add(plugins, "multiPoint", "disabled", off)
    if chance(rng, 0.7):
        names = some(rng, _EVERYWHERE, 1, 4)
        if chance(rng, 0.06):
            names.append(names[0])
        _add(plugins, "multiPoint", "enabled", [_plugin(rng, name, 0.7) for name in names])


def _scores(rng: Random, plugins: Object) -> None:
    """Other scores, or all of them."""
    if chance(rng, 0.4):
        _add(plugins, "score", "disabled", [{"name": "*"}])
    elif chance(rng, 0.5):
        off = [{"name": name} for name in some(rng, _POINTS["score"], 1, 3)]
        _add(plugins, "score", "disabled", off)
    if chance(rng, 0.7):
        on = [_plugin(rng, name, 0.8) for name in some(rng, _POINTS["score"], 1, 5)]
        _add(plugins, "score", "enabled", on)


def _pair_off(rng: Random, plugins: Object) -> None:
    """A plugin that no longer filters or scores."""
    pair = rng.choice(_PAIRS)
    name = rng.choice(_POINTS[pair[1]])
    for point in pair:
        _add(plugins, point, "disabled", [{"name": name}])


def _order(rng: Random, plugins: Object) -> None:
    """Plugins in another order at some point, perhaps none of the others."""
    point = rng.choice(["filter", "preFilter", "preScore", "score", "postFilter", "preEnqueue"])
    if chance(rng, 0.15):
        _add(plugins, point, "disabled", [{"name": "*"}])
    on = [_plugin(rng, name, 0.2) for name in some(rng, _POINTS[point], 1, 4)]
    _add(plugins, point, "enabled", on)


def _anywhere(rng: Random, plugins: Object) -> None:
    """Any plugins at any point."""
    point = rng.choice([*_POINTS])
    own = _POINTS[point] or _EVERYWHERE
    if chance(rng, 0.6):
        names = some(rng, own if chance(rng, 0.8) else _EVERYWHERE, 1, 2)
        _add(plugins, point, "enabled", [_plugin(rng, name) for name in names])
    if chance(rng, 0.5):
        names = ["*"] if chance(rng, 0.4) else some(rng, own, 1, 2)
        _add(plugins, point, "disabled", [{"name": name} for name in names])


def _strange(rng: Random, plugins: Object) -> None:
    """A plugin that Kubernetes does not have."""
    point, field = (
        rng.choice(["multiPoint", "filter", "score"]),
        rng.choice(["enabled", "disabled"]),
    )
    _add(plugins, point, field, [{"name": rng.choice(_STRANGE)}])


_CHANGES = [
    *[_chosen_everywhere] * 4,
    *[_changed_everywhere] * 5,
    *[_scores] * 5,
    *[_pair_off] * 3,
    *[_order] * 5,
    *[_anywhere] * 2,
]


def _plugin_config(rng: Random, name: str) -> Object:
    args = _ARGS[name](rng) if name in _ARGS else {"any": [1]}
    if chance(rng, 0.3):
        args |= {"apiVersion": API_VERSION, "kind": f"{name}Args"}
    if chance(rng, 0.04):
        return {"name": name}
    return {"name": name if chance(rng, 0.97) else rng.choice(_STRANGE), "args": args}


def _preemption(rng: Random) -> Object:
    fields = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")
    return {name: _one(rng, [1, 10, 100], [0, 101, -1]) for name in fields if chance(rng, 0.6)}


def _volume_binding(rng: Random) -> Object:
    found: Object = {"bindTimeoutSeconds": _one(rng, [600], [30, 0, -1])}
    if chance(rng, 0.03):
        found["shape"] = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    return found


def _dynamic_resources(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.5):
        found["filterTimeout"] = _one(rng, ["10s", "10000ms"], ["5s", "0s", "-1s"])
    if chance(rng, 0.5):
        found["bindingTimeout"] = _one(rng, ["10m", "600s"], ["1s", "500ms"])
    return found


_BAD_KEYS = ["", "/x", "a/b/c", "-bad", "example.com/" + "x" * 64, "Example.com/x", "a b", "x.-y/z"]


def _strategy(rng: Random) -> Object:
    """Strategies beside those of clusters: with parts that are absent, doubled or wrong."""
    found: Object = {}
    kinds = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    if chance(rng, 0.97):
        found["type"] = _one(rng, kinds, ["Most", ""])
    if chance(rng, 0.7):
        names = rng.choices(["cpu", "memory", "nvidia.com/gpu"], k=rng.randint(0, 3))
        found["resources"] = [
            {
                "name": name,
                **({"weight": _one(rng, [0, 1, 50, 100], [101, -1])} if chance(rng, 0.7) else {}),
            }
            for name in names
        ]
    if found.get("type") == "RequestedToCapacityRatio" or chance(rng, 0.03):
        points = [_one(rng, [0, 10, 50, 100], [101]) for _ in range(rng.randint(1, 4))]
        points = sorted(set(points)) if chance(rng, 0.94) else points[1:]
        shape = [{"utilization": one, "score": _one(rng, [0, 5, 10], [11, -1])} for one in points]
        found["requestedToCapacityRatio"] = {"shape": shape}
    args: Object = {"scoringStrategy": found}
    if chance(rng, 0.2):
        args["ignoredResources"] = [_one(rng, ["example.com/gpu", "cpu", "a_b.c"], _BAD_KEYS)]
    if chance(rng, 0.2):
        args["ignoredResourceGroups"] = [_one(rng, ["example.com", "UPPER"], [*_BAD_KEYS, "a/b"])]
    return args


def _spread(rng: Random) -> Object:
    if chance(rng, 0.2):
        return {"defaultingType": rng.choice(["", "System"])}
    found: Object = {"defaultConstraints": [_constraint(rng) for _ in range(rng.randint(0, 2))]}
    if chance(rng, 0.97):
        found["defaultingType"] = _one(rng, ["List"], ["System", "Other", ""])
    return found


def _constraint(rng: Random) -> Object:
    found: Object = {
        "maxSkew": _one(rng, [1, 2, 5], [0, -1]),
        "topologyKey": _one(rng, ["zone", "example.com/rack", "kubernetes.io/hostname"], _BAD_KEYS),
        "whenUnsatisfiable": _one(rng, ["DoNotSchedule", "ScheduleAnyway"], ["", "Never"]),
    }
    more = {"minDomains": 2, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["app"]}
    found |= {name: one for name, one in more.items() if chance(rng, 0.15)}
    if chance(rng, 0.03):
        found["labelSelector"] = {}
    return {name: one for name, one in found.items() if chance(rng, 0.99)}


def _requirement(rng: Random) -> Object:
    operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    operator = _one(rng, operators, ["Equals", ""])
    right = {"Exists": [], "DoesNotExist": [], "Gt": ["5"], "Lt": ["-3"]}.get(operator, ["a", ""])
    wrong = [["a"], [], ["1", "2"], ["x y"], ["1e3"], ["y" * 64]]
    found: Object = {
        "key": rng.choice(["disk", "example.com/rack", "zone"]) if chance(rng, 0.97) else "a/b/c",
        "operator": operator,
        "values": _one(rng, [right], wrong),
    }
    return {name: one for name, one in found.items() if one or chance(rng, 0.5)}


def _term(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.8):
        found["matchExpressions"] = [_requirement(rng) for _ in range(rng.randint(0, 2))]
    if chance(rng, 0.3):
        values = _one(rng, [["n1"]], [["n1", "n2"], []])
        operator = _one(rng, ["In", "NotIn"], ["Exists"])
        field = {"key": "metadata.name", "operator": operator, "values": values}
        found["matchFields"] = [field]
    return found


def _added_affinity(rng: Random) -> Object:
    found: Object = {}
    if chance(rng, 0.6):
        terms = [_term(rng) for _ in range(rng.randint(0, 2))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if chance(rng, 0.6):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice([0, 1, 50, -1]), "preference": _term(rng)}
            for _ in range(rng.randint(0, 2))
        ]
    return {"addedAffinity": found}


def _of_clusters(name: str) -> Callable[[Random], Object]:
    return lambda rng: ARGS[name](rng, ["n1", "n2"])


def _either(*makers: Callable[[Random], Object]) -> Callable[[Random], Object]:
    return lambda rng: rng.choice(makers)(rng)


def _resources(rng: Random) -> Object:
    names = some(rng, ["cpu", "memory", "nvidia.com/gpu"], 0, 3)
    if chance(rng, 0.05):
        names += names
    return {"resources": [{"name": name, "weight": _one(rng, [1, 0], [2])} for name in names]}


def _inter_pod(rng: Random) -> Object:
    return {"hardPodAffinityWeight": _one(rng, [0, 7, 100], [101, -1])}


_ARGS: dict[str, Callable[[Random], Object]] = {
    "NodeResourcesFit": _either(_of_clusters("NodeResourcesFit"), _strategy),
    "NodeResourcesBalancedAllocation": _either(
        _of_clusters("NodeResourcesBalancedAllocation"), _resources
    ),
    "PodTopologySpread": _either(_of_clusters("PodTopologySpread"), _spread),
    "InterPodAffinity": _either(_of_clusters("InterPodAffinity"), _inter_pod),
    "NodeAffinity": _either(_of_clusters("NodeAffinity"), _added_affinity),
    "DefaultPreemption": _preemption,
    "VolumeBinding": _volume_binding,
    "DynamicResources": _dynamic_resources,
}


def _spoil(rng: Random, document: Object) -> None:
    """One field somewhere that is wrong: its name, its type, its value, or that it is there."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, one in items:
            places.append((value, name))
            if isinstance(one, dict | list):
                walk(one)

    walk(document)
    parent, name = rng.choice(places)
    match rng.choice(["name", "value", "value", "case", "none", "null"]):
        case "name" if isinstance(parent, dict):
            parent[rng.choice(["weigth", "plugin", "extra", f"{name}s"])] = 1
        case "case" if isinstance(parent, dict):
            parent[name[0].swapcase() + name[1:]] = parent.pop(name)
        case "none" if isinstance(parent, dict):
            del parent[name]
        case "null":
            parent[name] = None
        case _:
            parent[name] = rng.choice([True, 3, -1, "text", 2.5, [], {}, "3", 1 << 31, 1 << 63, ""])


def _text(rng: Random, document: Object) -> str:
    """The document as people and programs write it."""
    match rng.choice(["yaml"] * 12 + ["json"] * 4 + ["flow"]):
        case "json":
            return json.dumps(document, indent=rng.choice([None, 2]))
        case "flow":
            return yaml.safe_dump(document, default_flow_style=True, sort_keys=False, width=1000)
    text = yaml.safe_dump(document, sort_keys=False)
    if chance(rng, 0.2):
        text += rng.choice(_LINES)
    return text


_LINES = [
    "parallelism: 16.0\n",
    "parallelism: 0o20\n",
    "parallelism: 0x10\n",
    "parallelism: 020\n",
    "parallelism: 1_6\n",
    "parallelism: 1e1\n",
    "parallelism: +16\n",
    "parallelism: 0b11\n",
    "parallelism: 08\n",
    "parallelism: 1:30\n",
    "leaderElection: {leaseDuration: ~}\n",
    "leaderElection: {resourceName: !!str 5}\n",
    "clientConnection: {<<: {qps: 7}, burst: 9}\n",
    "clientConnection: {qps: 1.5E+2, burst: 1_000}\n",
    'parallelism: "16"\n',
    "delayCacheUntilActive: yes\n",
    "delayCacheUntilActive: y\n",
    "delayCacheUntilActive: off\n",
    "delayCacheUntilActive: tRUE\n",
    "leaderElection: {leaseDuration: 1:30}\n",
    "leaderElection: {resourceName: 2026-01-01}\n",
    "leaderElection: {resourceName: 'yes', leaderElect: No}\n",
    "leaderElection: {resourceName: on}\n",
    "leaderElection: {resourceName: 1:30}\n",
    "clientConnection: {qps: .inf}\n",
    "clientConnection: {qps: 1e2}\n",
    "clientConnection: &c {qps: 7}\n",
    "podInitialBackoffSeconds: ~\n",
    "podInitialBackoffSeconds:\n",
    "podMaxBackoffSeconds: 99999999999\n",
    "1: 2\n",
    "kind: KubeSchedulerConfiguration\n",
    "---\nparallelism: 3\n",
    "---\n",
    "\tparallelism: 3\n",
    "# a comment\n...\n",
    "extenders: []\n",
]
