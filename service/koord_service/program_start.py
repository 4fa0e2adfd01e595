"""The start of this process, as status pages show it."""

from __future__ import annotations

import time

STARTED_AT = time.time()
"""Seconds since the epoch; a program imports this among its first modules."""
