"""What webhooks ask the API server while their own answer is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from koord_kube.protocol.api import Api, ApiError, Object
from koord_kube.protocol.resources import PODS
from koord_kube.views.metadata import decode_named

from koord_manager.quota.core.review import PodQuery


class ClusterQueries:
    """``api`` is only read from."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def pods(self, query: PodQuery) -> Sequence[str]:
        """Some of the pods that are asked for, as "namespace/name".

        Raises:
            ApiError: they cannot be listed.
        """
        labelled = [("", query.label)] if query.label else []
        for namespace, label in [*labelled, *((one, "") for one in query.namespaces)]:
            pages = self._api.pages(PODS, namespace, label_selector=label)
            async with aclosing(pages):
                async for page in pages:
                    if page.items:
                        return [decode_named(raw).metadata.key for raw in page.items]
        return ()

    async def pod(self, name: str, namespace: str) -> Object | None:
        """A pod; ``None`` where it is gone, or the API server does not say."""
        try:
            return await self._api.get(PODS, name, namespace)
        except ApiError:
            return None
