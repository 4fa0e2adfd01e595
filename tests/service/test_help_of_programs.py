"""The help of each program ends with calls that the program takes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from koord_service import settings as parsing
from koord_service.help_text import calls_of

PROGRAMS = {
    "koordlet": "koordlet.agent.main",
    "koord-runtime-proxy": "koord_proxy.main",
    "koord-manager": "koord_manager.program.main",
    "koord-scheduler": "koord_scheduler.program.main",
    "koord-descheduler": "koord_descheduler.program.main",
    "koord-device-daemon": "koord_devices.main",
}


class Parsed(BaseException):
    """The program has parsed its settings."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_examples_are_taken(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(PROGRAMS[program]).main
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit):
        main()
    calls = calls_of(capsys.readouterr().out)
    assert calls
    really: Any = parsing._flag_values

    def stop(*given: Any) -> None:
        really(*given)
        raise Parsed

    monkeypatch.setattr(parsing, "_flag_values", stop)
    for call in calls:
        name, *words = call.split()
        assert name == program
        monkeypatch.setattr(sys, "argv", [program, *words])
        with pytest.raises(Parsed):
            main()
