from __future__ import annotations

import sys

import pytest
from koord_demo.programs import DemoError, console_script, running


def python(code: str) -> list[str]:
    return [sys.executable, "-c", f"import sys, time; say = sys.stderr.write; {code}"]


def test_json_lines_are_understood():
    code = """say('warming up\\n{"why": "because"}\\n[1]\\n'); sys.stderr.flush(); time.sleep(60)"""
    with running("talker", python(code)) as program:
        program.wait_until(lambda: len(program.lines) == 3)
        assert program.events() == [{"why": "because"}]


def test_one_that_ends_early_is_quoted():
    with (
        running("mute", python("say('no such file\\n'); sys.exit(3)")) as program,
        pytest.raises(DemoError, match=r"mute ended with 3; its last log lines:\nno such file"),
    ):
        program.wait_until(lambda: False)


def test_one_that_never_gets_ready(monkeypatch):
    monkeypatch.setattr("koord_demo.programs._PATIENCE", 0.05)
    with (
        running("slow", python("time.sleep(60)")) as program,
        pytest.raises(DemoError, match="slow is not ready"),
    ):
        program.wait_until(lambda: False)


def test_a_program_that_is_not_installed():
    with pytest.raises(DemoError, match="koord-nonsense does not exist"):
        console_script("koord-nonsense")
