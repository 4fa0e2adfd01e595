"""Configurations are read whole, or refused with a line for each error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from koord_descheduler.config.descheduler_config import (
    descheduler_config,
    read_descheduler_config,
    written_config,
)
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.plugin import DeschedulerPlugin
from koord_model.times import from_rfc3339
from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.problems import SchedulerConfigError


class ShareArgs(PluginArgs, frozen=True):
    """Arguments of ``Share``."""

    share: int = 5

    def problems(self, path: str) -> Any:
        if self.share > 100:
            yield f"{path}.share is {self.share}; expected 0 to 100"


class Share(DeschedulerPlugin):
    """Balances."""

    name = "Share"
    Args = ShareArgs

    def __init__(self, args: ShareArgs) -> None:
        self.args = args

    def balance(self, cluster: ProfileRound) -> None:
        """Do nothing."""


class Evictor(DeschedulerPlugin):
    """Carries out moves."""

    name = "MigrationController"
    evicts = True


class Other(Evictor):
    """Carries out moves, too."""

    name = "DefaultEvictor"


KNOWN = {plugin.name: plugin for plugin in (Share, Evictor, Other)}


def config(**fields: Any) -> Any:
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
    return descheduler_config({**head, **fields}, KNOWN)


def profile(**fields: Any) -> Mapping[str, Any]:
    return {"profiles": [fields]}


def balance(*names: str) -> Mapping[str, Any]:
    return {"balance": {"enabled": [{"name": name} for name in names]}}


ONLY = {"disabled": [{"name": "*"}]}


def test_defaults() -> None:
    found = config()
    [one] = found.profiles
    assert (one.profile.name, one.evictor.name) == ("koord-descheduler", "MigrationController")
    assert one.names == {
        "deschedule": (),
        "balance": (),
        "evict": ("MigrationController",),
        "filter": ("MigrationController",),
    }
    assert (found.interval, found.dry_run, found.limits) == (0.0, False, ())
    election = found.leader_election
    assert (election.resource_namespace, election.resource_name) == (
        "koordinator-system",
        "koord-descheduler",
    )


def test_an_empty_name_of_the_lease_is_the_default_one() -> None:
    election = config(leaderElection={"resourceName": "", "resourceNamespace": ""}).leader_election
    assert (election.resource_namespace, election.resource_name) == (
        "koordinator-system",
        "koord-descheduler",
    )


def test_arguments_reach_the_plugin() -> None:
    args = {"apiVersion": "descheduler/v1alpha2", "kind": "ShareArgs", "share": 7}
    found = config(
        **profile(plugins=balance("Share"), pluginConfig=[{"name": "Share", "args": args}])
    )
    [plugin] = found.profiles[0].profile.balance
    assert plugin.args.share == 7


def test_another_evictor_takes_the_place_of_the_default_one() -> None:
    evict = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}
    [found] = config(**profile(plugins={"evict": evict})).profiles
    assert found.evictor.name == "DefaultEvictor"


def test_profiles_keep_their_order_and_choose_nodes() -> None:
    chosen = {"matchLabels": {"pool": "b"}}
    profiles = [{"name": name, "nodeSelector": chosen} for name in ("z", "a")]
    found = config(profiles=profiles, nodeSelector={"matchLabels": {"os": "linux"}}).profiles
    assert [one.profile.name for one in found] == ["z", "a"]
    selects = found[0].profile.selects
    assert selects({"pool": "b", "os": "linux"})
    assert not selects({"pool": "b"})
    assert not selects({"os": "linux"})


def test_limits() -> None:
    found = config(
        maxNoOfPodsToEvictPerNode=2,
        maxNoOfPodsToEvictPerWorkload=1,
        maxNoOfPodsToEvictTotal=0,
        deschedulingInterval="2m",
        evictQPS="0.5",
    )
    assert [(limit.name, limit.most) for limit in found.limits] == [
        ("maxNoOfPodsToEvictPerNode", 2),
        ("maxNoOfPodsToEvictPerWorkload", 1),
        ("maxNoOfPodsToEvictTotal", 0),
    ]
    assert (found.interval, found.pace) == (120, (0.5, None))


@pytest.mark.parametrize(
    ("time", "is_open"),
    [
        ("2026-11-27T07:59:59Z", False),
        ("2026-11-27T08:00:00Z", True),
        ("2026-11-27T17:59:59Z", True),
        ("2026-11-27T18:00:00Z", False),
        ("2026-11-28T12:00:00Z", False),
    ],
)
def test_windows(time: str, is_open: bool) -> None:
    [limit] = config(moveWindows=[{"schedule": "0 8 * * mon-fri", "duration": "10h"}]).limits
    assert (limit.name, limit.most) == ("moveWindows[0] (0 8 * * mon-fri for 10h)", 0)
    assert limit.holds_at(from_rfc3339(time)) is is_open


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"moveWindows": [{"schedule": "@daily", "duration": "1h"}]},
            (
                'moveWindows[0].schedule is "@daily"; expected five fields of cron in UTC, like'
                " 0 8 * * mon-fri"
            ),
        ),
        (
            {"moveWindows": [{"schedule": "0 8 * * *", "duration": "0s"}]},
            'moveWindows[0].duration is "0s"; expected a duration like 30m or 10h',
        ),
        ({"apiVersion": "v1"}, 'apiVersion is "v1"; expected descheduler/v1alpha2'),
        ({"dryRun": "yes"}, 'dryRun is "yes"; expected true or false'),
        (
            {"intervall": "1s"},
            "intervall is not a field of DeschedulerConfiguration v1alpha2; correct or remove it",
        ),
        (
            {"deschedulingInterval": "1 h"},
            (
                'deschedulingInterval is "1 h"; expected a duration like 60s or 5m, 0s for one'
                " round alone"
            ),
        ),
        (
            {"maxNoOfPodsToEvictTotal": -1},
            "maxNoOfPodsToEvictTotal is -1; expected a whole number >= 0",
        ),
        ({"evictQPS": "fast"}, 'evictQPS is "fast"; expected a number above 0'),
        ({"evictBurst": 3}, "evictBurst is 3; expected evictQPS with it"),
        (
            {"profiles": [{"name": "a"}, {"name": "a"}]},
            'profiles[1].name is "a"; expected another name than that of the other profiles',
        ),
        ({"profiles": [{}, {"name": "a"}]}, 'profiles[0].name is ""; expected a name'),
        (
            profile(plugins=balance("Shar")),
            'profiles[0].plugins.balance.enabled[0].name is "Shar"; expected Share?',
        ),
        (
            profile(plugins=balance("DefaultEvictor")),
            'profiles[0].plugins.balance is "DefaultEvictor"; expected a plugin that can balance',
        ),
        (
            profile(plugins={"evict": {"enabled": [{"name": "DefaultEvictor"}]}}),
            (
                'profiles[0].plugins.evict is "MigrationController, DefaultEvictor"; expected'
                " exactly one plugin; disable MigrationController to have another"
            ),
        ),
        (
            profile(plugins={"evict": {**ONLY, "enabled": [{"name": "Share"}]}}),
            (
                'profiles[0].plugins.evict is "Share"; expected one of DefaultEvictor,'
                " MigrationController"
            ),
        ),
        (
            profile(pluginConfig=[{"name": "Share", "args": {"share": 101}}]),
            "profiles[0].pluginConfig[0].args.share is 101; expected 0 to 100",
        ),
        (
            profile(pluginConfig=[{"name": "Share", "args": {"shares": 1}}]),
            (
                "profiles[0].pluginConfig[0].args.shares is not a field of the arguments of Share;"
                " correct or remove it"
            ),
        ),
        (
            profile(pluginConfig=[{"name": "Share"}, {"name": "Share"}]),
            'profiles[0].pluginConfig[1].name is "Share"; expected each plugin once',
        ),
        (
            profile(nodeSelector={"matchLabels": 5}),
            "profiles[0].nodeSelector has matchLabels or matchExpressions of a wrong kind",
        ),
    ],
)
def test_errors(fields: Mapping[str, Any], line: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        config(**fields)
    [found] = caught.value.problems
    assert found == line


def test_what_has_no_effect_is_said() -> None:
    found = config(healthzBindAddress="0.0.0.0:1", clientConnection={"qps": 5})
    assert found.without_effect == ("healthzBindAddress", "clientConnection.qps")


def test_the_written_configuration_reads_as_the_same() -> None:
    given = config(**profile(plugins=balance("Share"), nodeSelector={"matchLabels": {"a": "b"}}))
    text = written_config(given)
    assert yaml.safe_load(text)["profiles"][0]["pluginConfig"][-1]["args"]["share"] == 5
    for point in ("evict", "filter"):
        assert yaml.safe_load(text)["profiles"][0]["plugins"][point]["enabled"]
    again = read_descheduler_config(text, KNOWN)
    assert again.profiles[0].names == given.profiles[0].names
    assert written_config(again) == text


POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: "pool=x"
maxNoOfPodsToEvictPerNode: 3
gracePeriodSeconds: 7
profiles:
  - name: mine
    pluginConfig:
      - name: DefaultEvictor
        args: {minPodAge: 5m}
      - name: Share
        args: {share: 9}
    plugins:
      balance: {enabled: [Share]}
"""


def test_upstreams_policy_is_read() -> None:
    found = read_descheduler_config(POLICY, {"Share": Share})
    [mine] = found.profiles
    assert (mine.profile.name, mine.evictor.name) == ("mine", "DefaultEvictor")
    assert mine.names["filter"] == ("DefaultEvictor",)
    assert [plugin.args.share for plugin in mine.profile.balance] == [9]
    assert mine.args["DefaultEvictor"].min_age == 300
    assert [(limit.name, limit.most) for limit in found.limits] == [
        ("maxNoOfPodsToEvictPerNode", 3)
    ]
    assert found.grace_seconds == 7
    assert mine.profile.selects({"pool": "x"})
    assert not mine.profile.selects({"pool": "y"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "metricsProviders: [{source: KubernetesMetrics}, {source: Prometheus}]",
            'metricsProviders[1].source is "Prometheus"; expected KubernetesMetrics',
        ),
        ("strategies: {}", "strategies is not a field of DeschedulerPolicy v1alpha2"),
    ],
)
def test_what_of_a_policy_cannot_be_honoured_is_refused(line: str, expected: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        read_descheduler_config(POLICY + line + "\n", {"Share": Share})
    assert caught.value.problems[0].startswith(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sort: {enabled: [Share]}", 'profiles[0].plugins.sort.enabled is "Share"; expected noth'),
        ("filter: {disabled: [Share]}", 'profiles[0].plugins.filter.disabled is "Share"; expected'),
    ],
)
def test_plugins_that_a_policy_cannot_have_are_refused(line: str, expected: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        read_descheduler_config(f"{POLICY}      {line}\n", {"Share": Share})
    [found] = caught.value.problems
    assert found.startswith(expected)


@pytest.mark.parametrize("spelling", ["preevictionfilter", "preEvictionFilter"])
def test_a_policy_is_written_as_a_configuration(spelling: str) -> None:
    policy = POLICY + f"      {spelling}: {{enabled: [Share]}}\n"
    found = read_descheduler_config(policy, {"Share": Share})
    assert found.profiles[0].names["filter"] == ("DefaultEvictor", "Share")
    text = written_config(found)
    assert written_config(read_descheduler_config(text, {"Share": Share})) == text
