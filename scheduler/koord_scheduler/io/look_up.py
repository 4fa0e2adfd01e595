"""Outcome of a write that is not known, and the wait between questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from koord_kube.core.warnings import OnWarning
from koord_kube.protocol.api import ApiError, NotFoundError, Object
from koord_kube.shared_backoff import RequestBackoff, SharedBackoff

ReadObject = Callable[[str, str], Awaitable[Object]]
"""An object by its name and namespace."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0


async def look_up(
    read: ReadObject,
    name: str,
    namespace: str,
    on_warning: OnWarning,
    after: str,
    backoff: SharedBackoff,
) -> Object | None:
    """Read an object's present state, however long it takes; ``None``: it is gone.

    ``after`` says in warnings why it is asked. ``backoff`` is that of the API server: what waits
    here holds a turn of the binder's, and asks again as soon as the server answers anybody.
    """
    pauses = RequestBackoff(backoff, FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            return await read(name, namespace)
        except NotFoundError:
            return None
        except ApiError as error:
            on_warning(f"{error} (after {after})")
            await pauses.pause(error)
