"""What people read who wrote a wrong configuration, and what is not recorded of right ones."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import default_scheduler_config, read_scheduler_config
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.gangs.gang_spec import GangDefaults, MatchPolicy
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.elastic_quota.admission import AdmissionRules
from koord_scheduler.plugins.elastic_quota.overuse import RevokeRules
from koord_scheduler.state.pod_class import pod_class

from tests.support.clusters import random_cluster
from tests.support.prepared import prepared
from tests.support.scheduler_config_edges import HEAD, edges
from tests.support.scheduler_profile import default_plugins

DEFAULT = default_scheduler_config().profiles[0]
TERMS = "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
SHAPE = "{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{score: 11}]}}"


def plugins(text: str) -> str:
    return f"{HEAD}profiles: [{{plugins: {text}}}]"


def args(name: str, text: str) -> str:
    return f"{HEAD}profiles: [{{pluginConfig: [{{name: {name}, args: {text}}}]}}]"


ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("", "the document", ""),
        ("kind: KubeSchedulerConfiguration", "apiVersion", "missing"),
        (HEAD.replace("v1", "v1beta3"), "apiVersion", "v1beta3"),
        (HEAD.replace("v1", "v1beta3"), "apiVersion", "kubescheduler.config.k8s.io/v1"),
        (HEAD + "parallelism: 0", "parallelism", "0"),
        (HEAD + "parallelism: many", "parallelism", '"many"'),
        (HEAD + "parallelism: 3\nparallelism: 4", "line 4", "parallelism"),
        ('{"kind": 1, "kind": 2}', "cannot read", "kind"),
        (HEAD + "? [a]\n: b", "line 3", "name"),
        (HEAD + "parallelism: !!int {a: 1}", "line 3", "scalar"),
        (HEAD + "parallelism: !!bool x", "cannot read", "x"),
        (HEAD + "parallelism: &a [*a]", "cannot read", "aliases"),
        (HEAD + "clientConnection: {qps: 1e999}", "clientConnection.qps", "inf"),
        (HEAD + "Parallelism: 3", "Parallelism", "not a field"),
        (HEAD + "leaderElection: {extra: 3}", "leaderElection.extra", "not a field"),
        (HEAD + "leaderElection: {leaseDuration: 10s}", "leaderElection.leaseDuration", '"10s"'),
        (HEAD + "leaderElection: {retryPeriod: 1x}", "leaderElection.retryPeriod", '"1x"'),
        (HEAD + "podMaxBackoffSeconds: 2\npodInitialBackoffSeconds: 3", "podMaxBackoff", "2"),
        (HEAD + "extenders: [{prioritizeVerb: p}]", "extenders[0].weight", "0"),
        (
            HEAD + "extenders: [{managedResources: [{name: cpu}]}]",
            "extenders[0].managedResources[0].name",
            '"cpu"',
        ),
        (HEAD + "extenders: [{bindVerb: b}, {bindVerb: c}]", "extenders[1].bindVerb", '"c"'),
        (HEAD + "extenders: [{httpTimeout: soon}]", "extenders[0].httpTimeout", '"soon"'),
        (HEAD + "extenders: [{enableHttps: true}]", "extenders[0].enableHttps", "is not a field"),
        (
            HEAD + "extenders: [{tlsConfig: {insecure: true, caFile: /ca}}]",
            "extenders[0].tlsConfig.insecure",
            "true",
        ),
        (HEAD + "profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName", "missing"),
        (HEAD + "profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles[1].sch", '"a"'),
        (plugins("{filter: {enabled: [{name: A}]}}"), "profiles[0].plugins.filter.enabled[0]", "A"),
        (plugins("{filter: {disabled: [{name: A}]}}"), "profiles[0].plugins.filter.dis", "A"),
        (
            plugins("{score: {enabled: [{name: NodePorts}]}}"),
            "profiles[0].plugins.score",
            "preFilter",
        ),
        (plugins("{bind: {disabled: [{name: '*'}]}}"), "profiles[0].plugins.bind", "DefaultBinder"),
        (plugins("{preScore: {disabled: [{name: '*'}]}}"), "profiles[0].plugins", "preScore"),
        (args("InterPodAffinity", "{hardPodAffinityWeight: 101}"), f"{ARGS}.hardPodAff", "101"),
        (
            args("Reservation", "{preAllocationConfig: {clusterPriorityAnnotationKey: a.io/b}}"),
            f"{ARGS}.preAllocationConfig.clusterPriorityAnnotationKey",
            "a.io/b",
        ),
        (args("Reservation", "{ignoredResources: [cpu]}"), f"{ARGS}.ignoredResources[0]", '"cpu"'),
        (args("Coscheduling", "{defaultTimeout: -1s}"), f"{ARGS}.defaultTimeout", "-1s"),
        (args("Coscheduling", "{controllerWorkers: 0}"), f"{ARGS}.controllerWorkers", "0"),
        (args("Coscheduling", "{defaultMatchPolicy: all}"), f"{ARGS}.defaultMatchPolicy", '"all"'),
        (args("Coscheduling", "{timeout: 1s}"), f"{ARGS}", "timeout"),
        (
            args("Reservation", "{ignoredResources: [a.kubernetes.io/b]}"),
            f"{ARGS}.ignoredResources[0]",
            "a.kub",
        ),
        (
            args("Reservation", "{ignoredResourceGroups: [a/b]}"),
            f"{ARGS}.ignoredResourceGroups[0]",
            "a/b",
        ),
        (args("NodeResourcesFit", f"{{scoringStrategy: {SHAPE}}}"), f"{ARGS}.scoringStr", "11"),
        (
            args("NodeResourcesFit", "{kind: NodeAffinityArgs}"),
            f"{ARGS}.kind",
            "NodeResourcesFitArgs",
        ),
        (
            args("NodeAffinity", f"{{addedAffinity: {{{TERMS}[{{matchFields: [{{}}]}}]}}}}}}"),
            f"{ARGS}.addedAffinity.{TERMS.partition(':')[0]}.nodeSelectorTerms[0].matchFields[0].op",
            "In or NotIn",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_field_and_value(
    text: str, path: str, value: str
) -> None:
    with pytest.raises(SchedulerConfigError) as error:
        read_scheduler_config(text)
    first = error.value.problems[0]
    assert first.startswith(path)
    assert value in first
    assert "\n" not in first


@pytest.mark.parametrize(
    ("connection", "fields"),
    [
        ("{}", []),
        ("{qps: 50, burst: 100, contentType: application/vnd.kubernetes.protobuf}", []),
        ("{kubeconfig: /k, qps: 0, burst: 0}", []),
        ("{qps: 5000, burst: 100}", ["qps"]),
        ("{burst: 200, contentType: application/json}", ["burst", "contentType"]),
    ],
)
def test_settings_of_the_connection_without_effect(connection: str, fields: list[str]) -> None:
    found = read_scheduler_config(f"{HEAD}clientConnection: {connection}").without_effect
    assert list(found) == [f"clientConnection.{one}" for one in fields]


def test_all_unknown_plugins_are_named() -> None:
    text = """
      plugins: {filter: {enabled: [{name: A}, {name: NodeName}, {name: B}]}}
      pluginConfig: [{name: A, args: {delayEvictTime: 1s}}]"""
    with pytest.raises(SchedulerConfigError) as error:
        read_scheduler_config(f"{HEAD}profiles:\n    - schedulerName: koord-scheduler{text}")
    assert [one.partition(":")[0].partition(" ")[0] for one in error.value.problems] == [
        "profiles[0].plugins.filter.enabled[0].name",
        "profiles[0].plugins.filter.enabled[2].name",
        "profiles[0].pluginConfig[0].name",
    ]


def test_a_plugin_of_koordinator_may_be_disabled() -> None:
    text = plugins("{score: {disabled: [{name: LoadAwareScheduling}]}}")
    assert read_scheduler_config(text).profiles[0].points == DEFAULT.points


def fit(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
    }


@given(st.integers(0, 1 << 32))
def test_a_resource_that_is_there_twice_counts_twice(seed: int) -> None:
    cluster = random_cluster(Random(seed))
    nodes = prepared(DEFAULT.profile.plugins, length=1)
    for one in cluster["nodes"]:
        nodes.set(read_node(json.dumps(one).encode()))
    waiting = pod_class(read_pod(json.dumps(cluster["pod"]).encode()), nodes.features.values())
    once = [{"name": "cpu", "weight": 2}, {"name": "memory"}]
    twice = [{"name": "cpu"}, {"name": "memory"}, {"name": "cpu"}]
    both = [ClassScores(waiting, nodes, default_plugins(fit(one))) for one in (once, twice)]
    rows = both[0].feasible()
    assert both[0].totals(rows).tolist() == both[1].totals(rows).tolist()


TOKENS = [
    "[",
    "]",
    "{",
    "}",
    ":",
    "\n",
    " ",
    "- ",
    "!!int ",
    "!!set ",
    "&a ",
    "*a",
    "<<: ",
    "? ",
    "~",
    "9",
]


@given(
    st.sampled_from(edges()),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(TOKENS)), min_size=1, max_size=4),
)
def test_whatever_the_text_is_it_is_a_configuration_or_refused_in_lines(
    text: str, changes: list[tuple[int, str]]
) -> None:
    for place, token in changes:
        text = text[:place] + token + text[place:]
    problems: tuple[str, ...] = ("none",)
    try:
        read_scheduler_config(text)
    except SchedulerConfigError as error:
        problems = error.problems
    assert [len(one.splitlines()) for one in problems] == [1] * max(1, len(problems))


def test_arguments_of_reservation() -> None:
    given = """{enablePreemption: true, minCandidateNodesAbsolute: 5, controllerWorkers: 2,
      ignoredResources: [example.com/a], ignoredResourceGroups: [example.org],
      reservationSelectorIndex: {enabled: true, keys: [a]}}"""
    found = read_scheduler_config(args("Reservation", given)).profiles[0].args.reservation
    assert found.enable_preemption
    assert (found.ignored_resources, found.ignored_resource_groups) == (
        ("example.com/a",),
        ("example.org",),
    )


OF_KOORDINATOR = """
preEnqueue: {enabled: [{name: Coscheduling}]}
queueSort: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}]}
preFilter:
  enabled:
  - {name: SchedulingHint}
  - {name: Reservation}
  - {name: NodeNUMAResource}
  - {name: DeviceShare}
  - {name: Coscheduling}
  - {name: ElasticQuota}
filter:
  enabled:
  - {name: LoadAwareScheduling}
  - {name: NodeNUMAResource}
  - {name: DeviceShare}
  - {name: Reservation}
postFilter:
  disabled: [{name: "*"}]
  enabled:
  - {name: Reservation}
  - {name: Coscheduling}
  - {name: ElasticQuota}
  - {name: DefaultPreemption}
preScore: {enabled: [{name: Reservation}, {name: Coscheduling}]}
score:
  enabled:
  - {name: LoadAwareScheduling, weight: 1}
  - {name: NodeNUMAResource, weight: 1}
  - {name: DeviceShare, weight: 1}
  - {name: Reservation, weight: 5000}
  - {name: Coscheduling, weight: 1}
reserve:
  enabled:
  - {name: LoadAwareScheduling}
  - {name: NodeNUMAResource}
  - {name: DeviceShare}
  - {name: Reservation}
  - {name: Coscheduling}
  - {name: ElasticQuota}
permit: {enabled: [{name: Coscheduling}]}
preBind:
  enabled:
  - {name: NodeNUMAResource}
  - {name: DeviceShare}
  - {name: Reservation}
  - {name: Coscheduling}
  - {name: DefaultPreBind}
bind: {disabled: [{name: "*"}], enabled: [{name: Reservation}, {name: DefaultBinder}]}
postBind: {enabled: [{name: Coscheduling}]}
"""
"""What its manifests enable."""


def test_the_profile_of_koordinator_is_taken() -> None:
    given = {"plugins": yaml.safe_load(OF_KOORDINATOR), "schedulerName": "koord-scheduler"}
    text = HEAD + json.dumps({"profiles": [given]})[1:-1]
    (profile,) = read_scheduler_config(text).profiles
    assert profile.not_built == frozenset()
    enabled = {one.plugin.name: (one.filters, one.weight) for one in profile.profile.plugins}
    assert enabled["NodeNUMAResource"] == (True, 1)
    assert enabled["DeviceShare"] == (True, 1)
    assert enabled["Reservation"] == (True, 5000)
    assert enabled["LoadAwareScheduling"] == (True, 1)
    assert enabled["SchedulingHint"] == (True, 0)
    assert enabled["ElasticQuota"] == (True, 0)
    assert [one.name for one in profile.profile.preempting] == ["ElasticQuota"]
    assert profile.profile.preempts
    assert profile.profile.gangs == GangDefaults(600.0, MatchPolicy.ONCE_SATISFIED)


@pytest.mark.parametrize(("enabled", "expected"), [("true", True), ("false", False)])
def test_the_plugin_reservation_lets_pods_preempt_alone(enabled: str, expected: bool) -> None:
    only = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Reservation"}]}}
    of_reservation = yaml.safe_load(f"{{name: Reservation, args: {{enablePreemption: {enabled}}}}}")
    given = {"plugins": only, "pluginConfig": [of_reservation]}
    text = HEAD + json.dumps({"profiles": [given]})[1:-1]
    (profile,) = read_scheduler_config(text).profiles
    assert profile.profile.preempts is expected


def test_arguments_of_elastic_quota_are_read_and_refused_by_name() -> None:
    given = """
      delayEvictTime: 1m, revokePodInterval: 2s, monitorAllQuotas: true,
      defaultQuotaGroupMax: {cpu: 2}, systemQuotaGroupMax: {memory: 1Gi}, quotaGroupNamespace: q,
      enableCheckParentQuota: true, enableRuntimeQuota: true, enableMinQuotaScale: false,
      disableDefaultQuotaPreemption: false, enableQueueHint: true,
      quotaSnapshotUpdateInterval: 5s, hookPlugins: []"""
    found = read_scheduler_config(args("ElasticQuota", "{" + given + "}")).profiles[0].args
    settings = found.elastic_quota.settings()
    assert found.elastic_quota.revoke_rules() == RevokeRules(60.0, 2.0)
    assert (settings.rules.default_max, settings.rules.system_max) == (
        {"cpu": 2000},
        {"memory": 1 << 30},
    )
    assert (settings.rules.scales_min, settings.spares_default) == (False, False)
    assert settings.admission == AdmissionRules(uses_runtime=True, checks_parents=True)
    for field, value in (
        ("delayEvictTime", "soon"),
        ("defaultQuotaGroupMax", {"cpu": -1}),
        ("hookPlugins", [{"key": "k"}]),
        ("other", 1),
    ):
        with pytest.raises(SchedulerConfigError, match=field):
            read_scheduler_config(args("ElasticQuota", json.dumps({field: value})))
