from __future__ import annotations

from koord_manager.program.main import environment


def test_the_go_managers_environment_is_understood() -> None:
    found = environment({"WEBHOOK_PORT": "9999", "SECRET_NAME": "certs", "PATH": "/bin"})
    assert found["KOORD_MANAGER_WEBHOOK_ADDRESS"] == ":9999"
    assert found["KOORD_MANAGER_WEBHOOK_SECRET"] == "certs"
    assert found["PATH"] == "/bin"


def test_our_own_names_win() -> None:
    given = {"WEBHOOK_PORT": "9999", "KOORD_MANAGER_WEBHOOK_ADDRESS": ":1"}
    assert environment(given)["KOORD_MANAGER_WEBHOOK_ADDRESS"] == ":1"
