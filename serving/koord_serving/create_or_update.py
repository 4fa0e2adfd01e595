"""Makes one object of the API what it should be, while others may write it, too."""

from __future__ import annotations

from collections.abc import Callable

from koord_kube.protocol.api import Api, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import Resource

_TRIES = 5


async def create_or_update(
    api: Api,
    resource: Resource,
    name: str,
    namespace: str,
    desired: Callable[[Object | None], Object | None],
) -> bool:
    """Bring an object to its desired state; whether it was written.

    ``desired`` gets the object (``None`` if there is none), which it must not change, and returns
    the desired one, or ``None`` to do nothing. It is called again if another writer was faster.

    Raises:
        ApiError: it cannot be read or written.
        ConflictError: somebody else wrote in between over and over.
    """
    for _ in range(_TRIES):
        found = await _read(api, resource, name, namespace)
        given = desired(found)
        if given is None or given == found:
            return False
        try:
            if found is None:
                await api.create(resource, given, namespace)
            else:
                await api.replace(resource, name, given, namespace)
        except ConflictError:
            continue
        return True
    raise ConflictError(f"{resource.plural} {name}: changes all the time", 409)


async def _read(api: Api, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await api.get(resource, name, namespace)
    except NotFoundError:
        return None
