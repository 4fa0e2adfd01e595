"""Configurations of kube-scheduler that differ by one field, on both sides of what is allowed."""

from __future__ import annotations

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_LONG = "x" * 63
_LONG_DOMAIN = ".".join(["x" * 62] * 4)
_ANY = "{name: '*'}"
_SORT = "{name: PrioritySort}"

_TOP = [
    "parallelism: 2147483647",
    "parallelism: 2147483648",
    "parallelism: 0",
    "podMaxBackoffSeconds: 9223372036854775807",
    "podMaxBackoffSeconds: 9223372036854775808",
    "podInitialBackoffSeconds: 10",
    "podInitialBackoffSeconds: 11",
    "percentageOfNodesToScore: 100",
    "percentageOfNodesToScore: 101",
    "clientConnection: {burst: 2147483648}",
    "clientConnection: {burst: -1}",
    "leaderElection: {leaseDuration: 10001ms}",
    "leaderElection: {leaseDuration: 10s}",
    "leaderElection: {leaseDuration: 10s, leaderElect: false}",
    "leaderElection: {renewDeadline: 2.4s}",
    "leaderElection: {renewDeadline: 2401ms}",
    "leaderElection: {resourceLock: endpoints}",
    "leaderElection: {resourceLock: endpoints, leaderElect: false}",
    "leaderElection: {resourceName: '', resourceNamespace: ''}",
    "leaderElection: {retryPeriod: 0}",
    "leaderElection: {retryPeriod: '0'}",
    "leaderElection: {retryPeriod: .5s}",
    "profiles: []",
    "profiles: [{}]",
    "profiles: [{}, {}]",
    "profiles: [{}, {schedulerName: a}]",
    "profiles: [{schedulerName: ''}]",
    "profiles: [{schedulerName: a}, {schedulerName: b}]",
    "profiles: [{schedulerName: a}, {schedulerName: a}]",
    "profiles: [{percentageOfNodesToScore: 0}]\npercentageOfNodesToScore: 7",
    "profiles: [{percentageOfNodesToScore: 101}]",
]

_PLUGINS = [
    "{}",
    f"{{multiPoint: {{disabled: [{_ANY}]}}}}",
    f"{{multiPoint: {{disabled: [{_ANY}], enabled: [{_SORT}, {{name: DefaultBinder}}]}}}}",
    "{multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}",
    "{multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}",
    (
        "{multiPoint: {enabled: [{name: ImageLocality, weight: 3}, {name: ImageLocality}]},"
        " score: {enabled: [{name: ImageLocality, weight: 5}]}}"
    ),
    (
        "{multiPoint: {enabled: [{name: ImageLocality, weight: 3}, {name: ImageLocality}]},"
        " score: {disabled: [{name: ImageLocality}]}}"
    ),
    (
        "{multiPoint: {enabled: [{name: ImageLocality, weight: 3}]},"
        " score: {enabled: [{name: ImageLocality}]}}"
    ),
    "{multiPoint: {enabled: [{name: ImageLocality, weight: 0}]}}",
    "{multiPoint: {enabled: [{name: ImageLocality, weight: 2147483647}]}}",
    "{multiPoint: {enabled: [{name: ImageLocality, weight: 2147483648}]}}",
    "{multiPoint: {enabled: [{name: GangScheduling}, {name: PodGroupPodsCount, weight: 4}]}}",
    (
        "{multiPoint: {enabled: [{name: NodeResourcesFit, weight: 9}]}, placementScore:"
        " {enabled: [{name: NodeResourcesFit, weight: 8}]}}"
    ),
    "{score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}",
    "{score: {enabled: [{name: ImageLocality}], disabled: [{name: ImageLocality}]}}",
    f"{{score: {{enabled: [{{name: ImageLocality}}], disabled: [{_ANY}]}}}}",
    "{filter: {enabled: [{name: ImageLocality}]}}",
    "{filter: {enabled: [{name: NodePorts}, {name: NodeName}]}}",
    (
        "{filter: {enabled: [{name: TaintToleration}, {name: NodeName}]},"
        " multiPoint: {disabled: [{name: NodeName}]}}"
    ),
    "{queueSort: {disabled: [{name: PrioritySort}]}}",
    f"{{queueSort: {{disabled: [{_ANY}], enabled: [{_SORT}]}}}}",
    f"{{queueSort: {{enabled: [{_SORT}, {_SORT}]}}}}",
    "{bind: {disabled: [{name: DefaultBinder}]}}",
    "{preEnqueue: {disabled: [{name: SchedulingGates}]}}",
    "{postFilter: {disabled: [{name: DefaultPreemption}]}}",
    "{preEnqueue: {disabled: [{name: DefaultPreemption}]}}",
    "{permit: {enabled: [{name: GangScheduling}]}}",
    "{placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}}",
]

_SECOND_SORTS = [
    "{}",
    "{queueSort: {disabled: [{name: NodeName}]}}",
    "{queueSort: {disabled: [{name: NodeName, weight: -2}]}}",
    f"{{queueSort: {{enabled: [{_SORT}]}}}}",
    f"{{queueSort: {{disabled: [{_ANY}], enabled: [{_SORT}]}}}}",
]


def _term(kind: str, key: str, operator: str, values: str) -> tuple[str, str]:
    requirement = f"{{key: {key}, operator: {operator}, values: {values}}}"
    return "NodeAffinity", (
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        f" {{nodeSelectorTerms: [{{{kind}: [{requirement}]}}]}}}}}}"
    )


def _preferred(weight: int) -> tuple[str, str]:
    return "NodeAffinity", (
        "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution:"
        f" [{{weight: {weight}, preference: {{matchExpressions: [{{key: a}}]}}}}]}}}}"
    )


def _constraint(fields: str) -> tuple[str, str]:
    return "PodTopologySpread", f"{{defaultingType: List, defaultConstraints: [{fields}]}}"


def _strategy(fields: str) -> tuple[str, str]:
    return "NodeResourcesFit", f"{{scoringStrategy: {{{fields}}}}}"


def _shape(points: str) -> tuple[str, str]:
    ratio = f"requestedToCapacityRatio: {{shape: [{points}]}}"
    return _strategy(f"type: RequestedToCapacityRatio, {ratio}")


_ZONE = "topologyKey: zone, whenUnsatisfiable: DoNotSchedule"
_ARGS = [
    *(_term("matchExpressions", "a", "In", values) for values in ("[]", "[b]", "['']", "['b c']")),
    *(_term("matchExpressions", "a", "Exists", values) for values in ("[]", "[b]")),
    *(
        _term("matchExpressions", "a", operator, values)
        for operator in ("Gt", "Lt")
        for values in ("['5']", "[x]", "['1', '2']", "[]", "['9223372036854775808']", "['-1']")
    ),
    _term("matchExpressions", "a", "Other", "[b]"),
    *(
        _term("matchExpressions", key, "Exists", "[]")
        for key in ("a/b", "a/b/c", "/b", "A/b", "''", _LONG, f"{_LONG}x", "a_.-b", "a-")
    ),
    *(
        _term("matchExpressions", f"{domain}/b", "Exists", "[]")
        for domain in (_LONG_DOMAIN, f"{_LONG_DOMAIN}.x", f"{_LONG_DOMAIN}.xxx")
    ),
    *(_term("matchExpressions", "a", "In", f"[{value}]") for value in (_LONG, f"{_LONG}x")),
    *(
        _term("matchFields", "metadata.name", operator, values)
        for operator in ("In", "NotIn", "Exists")
        for values in ("[]", "[b]", "[b, c]")
    ),
    _preferred(0),
    _preferred(1),
    _preferred(-1),
    *(
        ("InterPodAffinity", f"{{hardPodAffinityWeight: {weight}}}")
        for weight in ("0", "100", "101", "-1", "1.5", "~")
    ),
    *(
        ("DefaultPreemption", f"{{minCandidateNodesPercentage: {one}, {many}}}")
        for one in (0, 100, 101)
        for many in ("minCandidateNodesAbsolute: 0", "minCandidateNodesAbsolute: -1")
    ),
    *(
        ("NodeResourcesBalancedAllocation", f"{{resources: [{resources}]}}")
        for resources in (
            "",
            "{name: cpu}, {name: cpu}",
            "{name: cpu, weight: 0}",
            "{name: cpu, weight: 2}",
            "{name: cpu, weight: -1}",
        )
    ),
    *(
        ("NodeResourcesFit", f"{{{field}: [{name}]}}")
        for field in ("ignoredResources", "ignoredResourceGroups")
        for name in ("a", "a/b", "a/b/c", "''", "-")
    ),
    *(
        _strategy(f"type: MostAllocated, resources: [{{name: cpu, weight: {weight}}}]")
        for weight in (0, 100, 101, -1)
    ),
    _strategy("type: MostAllocated, resources: [{name: cpu}, {name: cpu}]"),
    _strategy("resources: [{name: cpu}]"),
    _strategy("type: RequestedToCapacityRatio"),
    _strategy("type: LeastAllocated, requestedToCapacityRatio: {}"),
    _shape(""),
    _shape("{}"),
    _shape("{utilization: 10}, {utilization: 10}"),
    _shape("{utilization: 10}, {utilization: 9}"),
    _shape("{utilization: 10}, {utilization: 100, score: 10}"),
    _shape("{utilization: 101}"),
    _shape("{score: 11}"),
    ("PodTopologySpread", "{defaultingType: List}"),
    ("PodTopologySpread", "{defaultingType: ''}"),
    ("PodTopologySpread", "{defaultingType: Other}"),
    ("PodTopologySpread", f"{{defaultConstraints: [{{{_ZONE}, maxSkew: 1}}]}}"),
    _constraint(f"{{{_ZONE}, maxSkew: 1}}"),
    _constraint(f"{{{_ZONE}, maxSkew: 0}}"),
    _constraint(f"{{{_ZONE}}}"),
    _constraint(f"{{{_ZONE}, maxSkew: 1, labelSelector: {{}}}}"),
    _constraint(f"{{{_ZONE}, maxSkew: 1, minDomains: -1, nodeTaintsPolicy: Other}}"),
    _constraint(f"{{{_ZONE}, maxSkew: 1}}, {{{_ZONE}, maxSkew: 2}}"),
    _constraint("{maxSkew: 1, topologyKey: zone}"),
    _constraint("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"),
    ("VolumeBinding", "{bindTimeoutSeconds: 600}"),
    ("VolumeBinding", "{shape: []}"),
    ("DynamicResources", "{filterTimeout: 10s, bindingTimeout: 600s}"),
    ("NodeName", "{any: thing}"),
    ("NodeAffinity", "{}"),
    ("NodeAffinity", "{addedAffinity: {}}"),
    ("NodeAffinity", "[]"),
    ("NodeAffinity", "{kind: NodeAffinityArgs}"),
    ("NodeAffinity", "{kind: NodeAffinity}"),
    ("NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1}"),
    ("NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v2}"),
    ("NodeAffinity", "{}}, {name: NodeAffinity, args: {}"),
    ("EBSLimits", "{}"),
]


def edges() -> list[str]:
    """The texts."""
    plugins = [f"profiles: [{{plugins: {one}}}]" for one in _PLUGINS]
    sorts = [
        f"profiles: [{{schedulerName: a, plugins: {one}}}, {{schedulerName: b, plugins: {other}}}]"
        for one in _SECOND_SORTS
        for other in _SECOND_SORTS
    ]
    args = [
        f"profiles: [{{pluginConfig: [{{name: {name}, args: {text}}}]}}]" for name, text in _ARGS
    ]
    return [f"{HEAD}{one}\n" for one in (*_TOP, *plugins, *sorts, *args)]
