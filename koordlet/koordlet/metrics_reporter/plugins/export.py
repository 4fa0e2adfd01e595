"""Fields that plugins report, put into the object that koordlet exports.

Koordlet's own fields go before, then those of plugins in the order of their names. The API server
does not pay for plugins that change all the time: after some changes they are sent once a minute,
as our own usage is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import ApiError, Object
from koord_service.logs import get_log

from koordlet.metrics_reporter.plugins.core.admission import FieldAdmission
from koordlet.metrics_reporter.plugins.core.contents import Fields
from koordlet.metrics_reporter.plugins.core.merging import merged
from koordlet.metrics_reporter.plugins.host import log_once

_CHANGES_PER_SECOND, _MOST_CHANGES = 1 / 60, 5
_REFUSALS = (400, 413, 422)
"""HTTP statuses that are about what an object says, or how large it is."""
_PATHS = 5

_log = get_log("koordlet.plugins")


class PluginFieldExport:
    """Adds the fields of plugins to an object; ``reported`` is ``None`` while it is to wait."""

    def __init__(
        self,
        reported: Callable[[], Mapping[str, Fields] | None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reported = reported
        self._now = now
        self._current: Mapping[str, Fields] = {}
        self._changes = TokenBucket(_CHANGES_PER_SECOND, _MOST_CHANGES)
        self._admission = FieldAdmission()
        self._partial: set[str] = set()

    def add(self, built: Object) -> Object | None:
        """Return the object with their fields; what is there stays."""
        reported = self._reported()
        if reported is None:
            return None
        if reported != self._current and self._changes.allow(self._now()):
            self._current = reported
        for name, fields in self._admission.select(self._current).items():
            built, conflicts = merged(built, fields)
            paths = ", ".join(conflicts[:_PATHS])
            log_once(self._partial, name, f"{paths}: set by another" if paths else "")
        return built

    def judge(self, error: ApiError | None) -> bool:
        """Learn what the API server said; return whether another object will be built now."""
        if error is None:
            self._admission.accept()
        if error is None or error.status not in _REFUSALS:
            return False
        name = self._admission.refuse()
        if name:
            _log.warning("reporter plugin withheld", plugin=name, reason=str(error))
        return name is not None
