from __future__ import annotations

import pytest
from koord_manager.noderesource.core.calculation_names import CALCULATIONS
from koord_manager.program.config import CONTROLLERS, Settings, idle_controllers, select_enabled
from koord_manager.program.gates import DEFAULTS
from koord_service.settings import SettingsError, parse


def parsed(*argv: str) -> Settings:
    return parse(Settings, prog="koord-manager", description="", argv=argv, environ={})


def test_the_flags_of_the_go_manager_are_taken() -> None:
    # As its manifest has them, the logging library's aside.
    found = parsed(
        "--enable-leader-election",
        "--metrics-addr=:8080",
        "--health-probe-addr=:8000",
        "--leader-election-namespace=koordinator-system",
        "--config-namespace=koordinator-system",
        "--feature-gates=",
        "--controllers=*,-colocationprofile",
        "--colocation-profile-reconcile-interval=1m",
    )
    assert found.enable_leader_election
    assert found.colocation_profile_reconcile_interval == 60
    assert found.controllers == ("*", "-colocationprofile")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("*",), set(CONTROLLERS)),
        ((), set()),
        (("nodeslo",), {"nodeslo"}),
        (("*", "-nodeslo"), set(CONTROLLERS) - {"nodeslo"}),
        (("-nodeslo",), set()),
        (("nodeslo", "-nodeslo"), set()),
    ],
)
def test_which_are_chosen(given: tuple[str, ...], names: set[str]) -> None:
    assert select_enabled("controllers", given, CONTROLLERS) == names


@pytest.mark.parametrize(
    ("given", "gates", "named"),
    [
        ("*", {}, []),
        ("*,-quotaprofile", {}, []),
        ("noderesource,quotaprofile", {}, []),
        ("-nodeslo", {}, ["none"]),
        ("nodeslo,colocationprofile", {}, ["colocationprofile"]),
        ("colocationprofile", {"ColocationProfileController": True}, []),
        ("recommendation", {}, ["recommendation"]),
        ("recommendation,noderesource", {}, []),
    ],
)
def test_controllers_that_are_named_and_run_nothing_are_reported(
    given: str, gates: dict[str, bool], named: list[str]
) -> None:
    settings = parsed(f"--controllers={given}")
    lines = idle_controllers(settings.controllers, {**DEFAULTS, **gates})
    assert [line.partition(" ")[0] for line in lines] == named


def test_a_calculation_is_no_controller() -> None:
    assert select_enabled("noderesource-plugins", ("*",), CALCULATIONS) == set(CALCULATIONS)
    with pytest.raises(SettingsError):
        parsed("--noderesource-plugins=quotaprofile")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--controllers=nodeslos", '--controllers has "nodeslos"; there are nodemetric, '),
        ("--noderesource-plugins=-Batch", '--noderesource-plugins has "-Batch"; there are CPU'),
        ("--rest-config-qps=0", "--rest-config-qps is 0; expected more than 0"),
        ("--lease-duration=5", "a lease of 5 s, a renew deadline of 10 s"),
        ("--metrics-address=:1", "--metrics-address"),
        ("--webhook-address=9876", '--webhook-address is "9876"; expected HOST:PORT or :PORT'),
        ("--feature-gates=PodMutatingWebhook=maybe", 'is "maybe"; expected true or false'),
        ("--feature-gates=ResourceMetricsAPI=true", "; it needs --enable-node-metric-api"),
        ("--feature-gates=CustomMetricsAPI=true", "CustomMetricsAPI=true; it needs --enable-node"),
        ("--enable-node-metric-api", "--enable-node-metric-api needs --enable-leader-election"),
    ],
)
def test_what_cannot_be_is_named(argument: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parsed(argument)
    assert said in str(caught.value)
