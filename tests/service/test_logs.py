"""One event is one line, whatever is in it."""

from __future__ import annotations

import datetime
import enum
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from koord_service import logs

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)


def line_of(capsys: Capture) -> str:
    """The one line that was logged, without its newline."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    return err[:-1]


def human(capsys: Capture, **fields: object) -> str:
    """What the human format makes of the fields."""
    logs.configure("human", "info")
    logs.get_log("test").info("event", **fields)
    return line_of(capsys).partition("event")[2].removeprefix("  ")


def as_json(capsys: Capture, **fields: object) -> dict[str, object]:
    logs.configure("json", "info")
    logs.get_log("test").info("event", **fields)
    event: dict[str, object] = json.loads(line_of(capsys))
    return event


def test_human_line(capsys: Capture) -> None:
    logs.configure("human", "info")
    log = logs.get_log("test")
    log.info("hook answered", pod="ns/name", container="c", server="koordlet", took_ms=0.8)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} INFO  hook answered"
        r"  pod=ns/name container=c server=koordlet took_ms=0\.8",
        line_of(capsys),
    )
    log.info("100% done, %s\nnext")
    assert line_of(capsys).endswith(r"100% done, %s\nnext")
    assert human(capsys) == ""
    assert human(capsys, **{"a\nb": 1}) == r"a\nb=1"


@pytest.mark.parametrize(
    ("level", "label"),
    [("debug", "DEBUG "), ("info", "INFO  "), ("warning", "WARN  "), ("error", "ERROR ")],
)
def test_levels(capsys: Capture, level: str, label: str) -> None:
    logs.configure("human", "debug")
    getattr(logs.get_log("test"), level)("event")
    assert line_of(capsys)[13:] == f"{label}event"
    logs.configure("json", "debug")
    getattr(logs.get_log("test"), level)("event")
    assert json.loads(line_of(capsys))["level"] == level


def test_levels_below_are_silent(capsys: Capture) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("rendered though the level is off")

    logs.configure("human", "error")
    log = logs.get_log("test")
    log.debug("event", value=Costly())
    log.info("event", value=Costly())
    log.warning("event", value=Costly())
    assert capsys.readouterr().err == ""


class Stage(enum.StrEnum):
    CREATE = "PreCreateContainer"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(("plain", "plain"), ("", '""'), ("two words", '"two words"'), ("a=b", '"a=b"')),
        *(('a "quote"', r'"a \"quote\""'), ("it's", '"it\'s"'), ("a\\b", r'"a\\b"')),
        *(("two\nlines", r'"two\nlines"'), ("\r\t\x1b[31m\x00", r'"\r\t\x1b[31m\x00"')),
        *(("\x85\u2028\u202e", r'"\x85\u2028\u202e"'), ("größe", "größe"), ("\udc80", r'"\udc80"')),
        *((7, "7"), (True, "true"), (False, "false"), (0.1 + 0.2, "0.3"), (float("nan"), "nan")),
        *((b"secret", "bytes[6]"), (bytearray(3), "bytes[3]"), (memoryview(b"four"), "bytes[4]")),
        *((["a", b"x", 1], "a,bytes[1],1"), ({"a": b"x"}, "a:bytes[1]"), ((), '""')),
        (Stage.CREATE, "PreCreateContainer"),
        (ValueError("bad\nvalue"), r'"bad\nvalue"'),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_human_values(capsys: Capture, value: object, text: str) -> None:
    assert human(capsys, value=value) == f"value={text}"


def test_fields_that_are_none_are_left_out(capsys: Capture) -> None:
    assert human(capsys, pod=None, container="c", server=None) == "container=c"
    assert "pod" not in as_json(capsys, pod=None)


def test_json_line(capsys: Capture) -> None:
    before = datetime.datetime.now(datetime.UTC)
    event = as_json(capsys, pod="ns/name", took_ms=0.8, ok=True, count=3)
    ts = str(event.pop("ts"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ts)
    passed = datetime.datetime.fromisoformat(ts) - before
    assert abs(passed.total_seconds()) < 60
    assert event == {
        "level": "info",
        "logger": "test",
        "message": "event",
        "pod": "ns/name",
        "took_ms": 0.8,
        "ok": True,
        "count": 3,
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("two\nlines \u2028", "two\nlines \u2028"),
        (b"secret", "bytes[6]"),
        ([b"secret", None, {"a": b"secret"}], ["bytes[6]", None, {"a": "bytes[6]"}]),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (float("inf"), "inf"),
        (Stage.CREATE, "PreCreateContainer"),
        (ValueError("bad"), "bad"),
    ],
)
def test_json_values(capsys: Capture, value: object, expected: object) -> None:
    assert as_json(capsys, value=value)["value"] == expected


def test_json_fields_never_replace_the_events_own(capsys: Capture) -> None:
    event = as_json(capsys, message="other", level="other", self="me")
    assert (event["message"], event["message_"]) == ("event", "other")
    assert (event["level"], event["level_"]) == ("info", "other")
    assert event["self"] == "me"


@pytest.mark.parametrize("format_", ["human", "json"])
def test_events_of_libraries_are_one_line_too(capsys: Capture, format_: str) -> None:
    logs.configure(format_, "info")
    logger = logging.getLogger("library")
    logger.warning("value %s\nof %d", "a", 3)
    line = line_of(capsys)
    assert r"value a\nof 3" in line
    try:
        raise ValueError("broken\nvalue")
    except ValueError:
        logger.exception("failed")
    line = line_of(capsys)
    assert r"ValueError: broken\nvalue" in line
    assert "traceback" in line
    logger.critical("does not fit %d", "text")
    assert "does not fit %d" in line_of(capsys)
    logger.log(35, "between two levels")
    assert "between two levels" in line_of(capsys)


def test_configure_again_replaces(capsys: Capture) -> None:
    logs.configure("json", "debug")
    logs.configure("human", "info")
    logs.get_log("test").info("event")
    assert line_of(capsys).endswith("INFO  event")


def test_configure_refuses() -> None:
    with pytest.raises(ValueError, match='log format is "xml"; expected "human" or "json"'):
        logs.configure("xml", "info")
    with pytest.raises(ValueError, match='log level is "loud"; expected debug, info, warning'):
        logs.configure("human", "loud")


def test_a_closed_stderr_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        logs.configure("human", "info")
        logs.get_log("test").info("event")
        # What could not be written must not fail once more when closing.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno(), inheritable=False)


CHILD = """
import os, sys
from koord_service import logs
status = os.fstat(2)
inode = status.st_ino + int(sys.argv[1])
os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{inode}"
logs.configure("human", "debug")
log = logs.get_log("test")
for level in ("debug", "info", "warning", "error"):
    getattr(log, level)("event", a=1)
"""


def run_child(inode_offset: int) -> list[str]:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(inode_offset)], capture_output=True, text=True, check=True
    )
    return child.stderr.splitlines()


def test_in_the_journal_priorities_replace_the_time() -> None:
    assert run_child(0) == [
        "<7>DEBUG event  a=1",
        "<6>INFO  event  a=1",
        "<4>WARN  event  a=1",
        "<3>ERROR event  a=1",
    ]


def test_an_inherited_journal_variable_is_not_believed() -> None:
    lines = run_child(1)
    assert len(lines) == 4
    assert all(re.match(r"\d\d:\d\d:\d\d", line) for line in lines)
