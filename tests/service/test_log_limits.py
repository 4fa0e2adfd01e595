"""Whoever repeats a warning fills no disk, and is counted."""

from __future__ import annotations

import logging

import pytest
from koord_service.log_limits import LogLimiter, flush_limiters
from koord_service.logs import get_log


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pykoord")


def test_one_line_of_a_message_in_an_interval_with_what_it_stands_for(caplog):
    now = 1000.0
    log = LogLimiter(get_log("test"), 10.0, monotonic=lambda: now)
    for number in range(100):
        log.warning("closed", error=number)
    log.warning("unread")
    now += 10.0
    log.warning("closed", error=100)
    assert [(record.getMessage(), record.fields) for record in caplog.records] == [
        ("closed", {"error": 0, "times": None}),
        ("unread", {"times": None}),
        ("closed", {"error": 100, "times": 100}),
    ]


def test_what_nothing_follows_is_counted_later_or_at_the_end(caplog):
    now = 1000.0
    log = LogLimiter(get_log("test.flushed"), 10.0, monotonic=lambda: now)
    for _ in range(3):
        log.warning("closed")
    now += 10.0
    log.warning("other")
    log.warning("other")
    flush_limiters()
    flush_limiters()
    now += 10.0
    log.warning("closed")
    # Limiters of other tests have counts as well.
    records = [record for record in caplog.records if "test.flushed" in record.name]
    assert [(record.getMessage(), record.fields["times"]) for record in records] == [
        ("closed", None),
        ("other", None),
        ("closed", 2),
        ("other", 1),
        ("closed", None),
    ]


def test_the_same_problem_of_many_objects_is_one_line(caplog):
    now = 1000.0
    log = LogLimiter(get_log("test"), 300.0, monotonic=lambda: now)
    for number in range(3):
        log.problem(f"node-{number}: annotation is not valid JSON")
    log.problem("node-1: something else")
    now += 301.0
    log.problem("node-7: annotation is not valid JSON")
    assert [record.fields for record in caplog.records] == [
        {"what": "node-0: annotation is not valid JSON", "times": None},
        {"what": "node-1: something else", "times": None},
        {"what": "node-7: annotation is not valid JSON", "times": 3},
    ]
