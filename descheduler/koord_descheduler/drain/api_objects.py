"""Objects of a kind as the API server has them: followed for a queue, or listed at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import msgspec
from koord_kube.client import Client
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.warnings import OnWarning
from koord_kube.informer import Informer
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector


def queued_objects(
    api: Client,
    resource: Resource,
    queue: Callable[[str], None],
    *,
    on_warning: OnWarning,
    timing: ReflectorTiming | None,
) -> Informer[Object]:
    """Follow a kind, whose definition need not be installed; ``queue`` gets the keys of changes."""
    return Informer(
        api,
        resource,
        decode=msgspec.json.Decoder(Object).decode,
        on_change=lambda key, _before, _now: queue(key),
        on_warning=on_warning,
        optional=True,
        timing=timing,
    )


async def listed_objects(
    api: Client, resource: Resource, selector: ApiSelector = EVERYTHING
) -> list[Object]:
    """List a kind, with what was just written: nothing is made twice.

    Raises:
        NotFoundError: the API server does not have the kind.
    """
    found: list[Object] = []
    async with aclosing(api.pages(resource, label_selector=selector)) as pages:
        async for page in pages:
            found = [*([] if page.first else found), *map(msgspec.json.decode, page.items)]
    return found
