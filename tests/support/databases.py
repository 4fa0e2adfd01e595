"""Every test closes the databases that it opens.

Python 3.13 and newer warn of one that is not closed, in whichever test its garbage is collected;
older ones say nothing. Here the test that opened it is named, in each of them.
"""

from __future__ import annotations

import sqlite3
from typing import Any

_connect = sqlite3.connect
_opened: list[sqlite3.Connection] = []


def record_connections() -> None:
    """Remember each connection from now on."""
    sqlite3.connect = _connect_recorded


def _connect_recorded(*arguments: Any, **options: Any) -> sqlite3.Connection:
    made: sqlite3.Connection = _connect(*arguments, **options)
    _opened.append(made)
    return made


def take_unclosed() -> list[sqlite3.Connection]:
    """The connections opened since the last call that are open still."""
    found = [one for one in _opened if _is_open(one)]
    _opened.clear()
    return found


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False
