"""Following the ConfigMap, end to end against a double of the API server."""

from __future__ import annotations

from koord_kube.protocol.resources import CONFIG_MAPS
from koord_manager.slo_config.core.config import DEFAULTS, UNREAD


async def test_without_a_config_map_the_defaults_hold(bench):
    configs = bench.configs(run=False)
    assert configs.config == UNREAD
    bench.run(configs.run())
    await configs.wait_synced()
    assert configs.config == DEFAULTS
    assert configs.problem == ""


async def test_changes_are_followed_and_listeners_hear_of_them(bench):
    bench.configure(colocation='{"enable": true}')
    configs = bench.configs(run=False)
    heard: list[bool] = []
    with configs.listening(lambda: heard.append(configs.config.colocation.cluster.enable)):
        bench.run(configs.run())
        await configs.wait_synced()
        assert heard == [True]
        bench.configure(colocation='{"enable": true, "degradeTimeMinutes": 15}')  # the same, said
        bench.configure(colocation='{"enable": false}')
        await bench.until(lambda: heard == [True, False])
        bench.configure(colocation='{"enable": true}')
        await bench.until(lambda: heard == [True, False, True])
        bench.api.delete(CONFIG_MAPS, "slo-controller-config", "koordinator-system")
        await bench.until(lambda: heard == [True, False, True, False])
    assert configs.data == {}
    bench.configure(colocation='{"enable": true}')
    await bench.until(lambda: configs.config.colocation.cluster.enable is True)
    assert heard == [True, False, True, False], "nobody listens any more"


async def test_a_bad_key_is_kept_as_it_was_and_reported_by_an_event_until_it_is_good(bench):
    bench.configure(colocation='{"enable": true}')
    configs = bench.configs()
    await configs.wait_synced()
    bench.configure(
        colocation='{"enable": 1, "degradeTimeMinutes": 0}',
        cpu_burst='{"clusterStrategy": {"policy": "auto"}}',
    )
    await bench.until(lambda: len(bench.events()) == 1)
    assert configs.config.colocation.cluster.enable is True
    assert configs.config.burst.cluster["policy"] == "auto"
    assert configs.data["colocation-config"] == '{"enable": true}'
    message = (
        "colocation-config enable is 1; expected true or false (and 1 more); "
        "the last good value of colocation-config stays in force"
    )
    assert bench.events() == [("SLOConfigInvalid", message)]
    assert bench.reported == [f"ConfigMap koordinator-system/slo-controller-config: {message}"]
    assert configs.problem == "colocation-config enable is 1; expected true or false"
    bench.configure(colocation="{}")
    await bench.until(lambda: len(bench.events()) == 2)
    good = "colocation-config can be used again and is in force"
    assert ("SLOConfigValid", good) in bench.events()
    assert bench.reported[1:] == [f"ConfigMap koordinator-system/slo-controller-config: {good}"]
    assert (configs.problem, configs.problems) == ("", ())
    about = next(one for key, one in bench.api.objects.items() if key.resource.kind == "Event")
    kept = bench.api.get(CONFIG_MAPS, "slo-controller-config", "koordinator-system")
    assert about["involvedObject"]["uid"] == kept["metadata"]["uid"]


async def test_unknown_fields_are_reported_once_and_the_rest_of_their_key_applies(bench):
    bench.configure(colocation='{"enable": true, "degradeTimeMinuts": 5}')
    configs = bench.configs()
    await bench.until(lambda: len(bench.events()) == 1)
    assert configs.config.colocation.cluster.enable is True
    assert configs.problems == ()
    [(reason, message)] = bench.events()
    assert reason == "SLOConfigUnknownField"
    assert "degradeTimeMinuts" in message
    assert "degradeTimeMinutes" in message
    assert bench.reported == [f"ConfigMap koordinator-system/slo-controller-config: {message}"]
    assert configs.problem == message
    # Another key changes: the same is not said again.
    bench.configure(
        colocation='{"enable": true, "degradeTimeMinuts": 5}',
        cpu_burst='{"clusterStrategy": {"polcy": "auto"}}',
    )
    await bench.until(lambda: len(bench.reported) == 2)
    assert "polcy" in bench.reported[1]
    bench.configure(colocation='{"enable": true}')
    await bench.until(lambda: configs.problem == "")
