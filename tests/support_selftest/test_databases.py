from __future__ import annotations

import contextlib
import sqlite3

from tests.support.databases import take_unclosed


def test_only_databases_that_are_still_open_are_found() -> None:
    sqlite3.connect(":memory:").close()
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        assert take_unclosed() == [database]
    assert take_unclosed() == []
