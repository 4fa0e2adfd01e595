"""Writes Events about objects, and is in nobody's way where that fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from koord_kube.api import Api, ApiError, NotLeadingError, Object
from koord_kube.events import Repeated, Reporter, event
from koord_kube.resources import EVENTS


def _untold(_line: str) -> None:
    pass


class Recorder:
    """Says what ``component`` has to say of objects; each thing once in five minutes.

    ``instance`` is the name of the component's pod. ``failed`` gets a line for people when
    Events begin not to be written; what could not be is dropped.
    """

    def __init__(
        self,
        api: Api,
        component: str,
        instance: str = "",
        *,
        failed: Callable[[str], None] = _untold,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._reporter = Reporter(component, instance)
        self._failed = failed
        self._wall = wall
        self._clock = clock
        self._repeated = Repeated()
        self._fails = False

    async def tell(
        self, regarding: Object, reason: str, message: str, warning: bool = False
    ) -> None:
        """Write it, unless the same was said of the same a short time ago.

        ``regarding`` is an object with ``kind`` and ``apiVersion``, or a ``reference``.
        A ``message`` should have no numbers that always move: it would never be the same.
        """
        meta = regarding["metadata"]
        about = regarding["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", "")
        count = self._repeated.count((about, reason, message), self._clock())
        if not count:
            return
        given = event(
            regarding,
            reason,
            message,
            self._reporter,
            self._wall(),
            warning=warning,
            count=count,
        )
        try:
            await self._api.create(EVENTS, given, given["metadata"]["namespace"])
        except NotLeadingError:
            return
        except ApiError as error:
            if not self._fails:
                self._failed(f"{error} (Events are not written)")
            self._fails = True
        else:
            self._fails = False
