from __future__ import annotations

import pytest
from koord_manager.config import Settings
from koord_manager.main import environment, without_foreign
from koord_service.settings import parse


def test_the_go_managers_environment_is_understood() -> None:
    found = environment({"WEBHOOK_PORT": "9999", "SECRET_NAME": "certs", "PATH": "/bin"})
    assert found["KOORD_MANAGER_WEBHOOK_ADDRESS"] == ":9999"
    assert found["KOORD_MANAGER_WEBHOOK_SECRET"] == "certs"
    assert found["PATH"] == "/bin"


def test_our_own_names_win() -> None:
    given = {"WEBHOOK_PORT": "9999", "KOORD_MANAGER_WEBHOOK_ADDRESS": ":1"}
    assert environment(given)["KOORD_MANAGER_WEBHOOK_ADDRESS"] == ":1"


def test_koordinators_own_manifest_starts_it() -> None:
    # The arguments of its Deployment, as they are.
    arguments, others = without_foreign(
        [
            "--enable-leader-election",
            "--metrics-addr=:8080",
            "--health-probe-addr=:8000",
            "--logtostderr=true",
            "--leader-election-namespace=koordinator-system",
            "--config-namespace=koordinator-system",
            "--v=4",
            "--feature-gates=",
            "--sync-period=0",
            "--controllers=*,-quotaprofile",
        ]
    )
    found = parse(Settings, prog="koord-manager", description="", argv=arguments, environ={})
    assert found.enable_leader_election
    assert others == ["--logtostderr=true", "--v=4", "--sync-period=0"]


@pytest.mark.parametrize("word", ["v", "--vv=4", "--metrics-addr=:1", "-x"])
def test_only_flags_that_are_known_are_passed_over(word: str) -> None:
    assert without_foreign([word]) == ([word], [])
