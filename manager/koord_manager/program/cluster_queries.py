"""Requests of webhooks to the API server while their own answer is awaited."""

from __future__ import annotations

from contextlib import aclosing

from koord_kube.protocol.api import Api, ApiError, Object
from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector

from koord_manager.quota.core.review import PodQuery


class ClusterQueries:
    """``api`` is only read from."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def has_pods(self, query: PodQuery) -> bool:
        """True if there are such pods.

        Raises:
            ApiError: they cannot be listed.
        """
        if query.label and await self._any_pod(label_selector=query.label):
            return True
        for namespace in query.namespaces:
            if await self._any_pod(namespace):
                return True
        return False

    async def _any_pod(self, namespace: str = "", label_selector: ApiSelector = EVERYTHING) -> bool:
        pages = self._api.pages(PODS, namespace, label_selector=label_selector, limit=1)
        async with aclosing(pages):
            async for page in pages:
                if page.items:
                    return True
        return False

    async def pod(self, name: str, namespace: str) -> Object | None:
        """A pod; ``None`` where it is gone, or the API server does not say."""
        try:
            return await self._api.get(PODS, name, namespace)
        except ApiError:
            return None
