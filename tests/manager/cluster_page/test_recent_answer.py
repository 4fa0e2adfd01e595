"""However many look at a page, what it says is made once a second."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from koord_manager.cluster_page.recent_answer import RecentAnswer


def test_threads_that_ask_at_once_get_one_answer_and_later_ones_another() -> None:
    now, made, go = [0.0], list[int](), threading.Event()

    def make() -> bytes:
        go.wait()
        made.append(1)
        return b"%d" % len(made)

    answer = RecentAnswer(make, 1.0, lambda: now[0])
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(answer.get) for _ in range(8)]
        go.set()
        assert {one.result() for one in found} == {b"1"}
    now[0] = 0.9
    assert answer.get() == b"1"
    now[0] = 1.0
    assert answer.get() == b"2"


def test_what_fails_is_tried_again() -> None:
    outcomes = [TimeoutError("busy"), b"fine"]

    def make() -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, bytes):
            return outcome
        raise outcome

    answer = RecentAnswer(make, 1.0)
    with pytest.raises(TimeoutError, match="busy"):
        answer.get()
    assert answer.get() == b"fine"
