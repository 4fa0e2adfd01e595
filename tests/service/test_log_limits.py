"""Whoever repeats a warning fills no disk, and is counted."""

from __future__ import annotations

import asyncio
import logging

import pytest
from koord_service import log_limits
from koord_service.log_limits import LogLimiter
from koord_service.logs import get_log

from tests.support.waiting import until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(log_limits, "SECONDS", 0.01)
    caplog.set_level(logging.WARNING, "pykoord")


async def test_the_first_at_once_the_others_in_one_line(caplog):
    log = LogLimiter(get_log("test"))
    for number in range(100):
        log.warning("closed", error=number)
    assert [record.fields for record in caplog.records] == [{"error": 0}]
    await until(lambda: len(caplog.records) == 2)
    assert caplog.records[-1].getMessage() == "closed"
    assert caplog.records[-1].fields == {"error": 99, "times": 99}


async def test_another_message_is_another_matter(caplog):
    log = LogLimiter(get_log("test"))
    log.warning("closed")
    log.warning("unread")
    assert [record.getMessage() for record in caplog.records] == ["closed", "unread"]


async def test_after_a_quiet_interval_it_is_reported_at_once_again(caplog):
    log = LogLimiter(get_log("test"))
    log.warning("closed", error=1)
    await until(lambda: not log._suppressed)
    log.warning("closed", error=2)
    assert [record.fields for record in caplog.records] == [{"error": 1}, {"error": 2}]
    await asyncio.sleep(0)
