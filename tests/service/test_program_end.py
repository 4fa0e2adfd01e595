"""The last line and the exit code of a program say why it ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest
from koord_service.logs import get_log
from koord_service.program_end import on_signals, run_program

LOG = get_log("test")


def ended(error: Exception | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    async def work() -> None:
        if error is not None:
            raise error

    code = 0
    try:
        run_program("koord-x", work(), LOG)
    except SystemExit as end:
        code = int(str(end.code))
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("--x: is 3"), 2, "koord-x: --x: is 3\n"),
        (OSError(98, "in use"), 1, "koord-x: [Errno 98] in use\n"),
        (PermissionError(13, "denied", "/run/x"), 1, "koord-x: /run/x: denied\n"),
        (
            ExceptionGroup("", [ExceptionGroup("", [OSError("a task")])]),
            1,
            "koord-x: a task\n",
        ),
        (None, 0, ""),
    ],
)
def test_what_is_no_defect_is_one_line(
    error: Exception | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(error, capsys) == (code, line)


def test_a_defect_says_where(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    code, line = ended(KeyError("nobody\nexpected this"), capsys)
    assert code == 1
    assert line.startswith("koord-x: defect: KeyError: 'nobody\\nexpected this' (test_program_e")
    [record] = caplog.records
    assert record.getMessage() == "defect: ended"
    assert "Traceback" in record.fields["traceback"]


def test_several_errors_are_nobodys_to_hide(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code, line = ended(ExceptionGroup("two", [OSError("a"), OSError("b")]), capsys)
    assert code == 1
    assert line.startswith("koord-x: defect: ExceptionGroup: two (2 sub-exceptions)")
    assert "OSError: b" in caplog.records[-1].fields["traceback"]


def test_the_last_line_of_a_good_end(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    ended(None, capsys)
    assert [record.getMessage() for record in caplog.records] == ["stopped"]


async def test_signals_are_heard_on_the_event_loop() -> None:
    heard: list[str] = []
    loop = asyncio.get_running_loop()
    on_signals(lambda: heard.append("stop"), lambda: heard.append("reload"), loop)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.01)
    assert heard == ["stop", "reload", "stop", "stop"]


def test_signals_are_heard_without_an_event_loop() -> None:
    heard: list[str] = []
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        on_signals(lambda: heard.append("stop"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == ["stop"]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
