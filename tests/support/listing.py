"""Lists of a client in one piece, for tests."""

from __future__ import annotations

import msgspec
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import Resource


async def listed(
    api: Api,
    resource: Resource,
    namespace: str = "",
    field_selector: str = "",
    label_selector: str = "",
) -> tuple[list[Object], str]:
    """All objects, and the version that they are of."""
    found: list[Object] = []
    version = ""
    async for page in api.pages(resource, namespace, field_selector, label_selector):
        if page.first:
            found.clear()
        found += [msgspec.json.decode(one, type=Object) for one in page.items]
        version = page.version
    return found, version
