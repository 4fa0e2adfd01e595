"""A double of the API server in memory, for reviews of tokens and access, and a few objects.

What it says of tokens and rules is what ``kube_access`` says; nothing of it can be watched.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from typing import Any, cast

from koord_kube.protocol.api import Api, ApiError, NotFoundError, Object
from koord_kube.protocol.resources import Resource

from tests.support.kube_access import ADMINISTRATOR, Access
from tests.support.kube_refusal import Refused
from tests.support.kube_selecting import Key


class Reviews:
    """``objects`` are what ``get`` finds; ``away``: nothing is answered.

    Reviews wait while ``stuck`` is not set; ``waiting`` of them do. Without ``knows_audiences``
    answers are those of a server that does not know that there are any.
    """

    def __init__(self) -> None:
        self.access = Access()
        self.objects: dict[Key, Object] = {}
        self.away = False
        self.knows_audiences = True
        self.stuck = asyncio.Event()
        self.stuck.set()
        self.waiting = 0
        self.asked: list[tuple[str, Object]] = []

    @property
    def api(self) -> Api:
        """As those who ask know it; more than they ask of it there is not."""
        return cast("Api", self)

    def put(self, resource: Resource, given: Object, namespace: str = "") -> None:
        kept = copy.deepcopy(given)
        kept["metadata"].setdefault("uid", str(uuid.uuid4()))
        self.objects[Key(resource, namespace, given["metadata"]["name"])] = kept

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._answer()
        found = self.objects.get(Key(resource, namespace, name))
        if found is None:
            raise NotFoundError(f"{resource.plural} {name}: 404 not found", 404)
        return copy.deepcopy(found)

    async def create(
        self, resource: Resource, given: Object, namespace: str = "", *_: Any
    ) -> Object:
        self._answer()
        group = f"{resource.group}/{resource.version}"
        assert (given["apiVersion"], given["kind"]) == (group, resource.kind)
        self.asked.append((resource.kind, given["spec"]))
        self.waiting += 1
        try:
            await self.stuck.wait()
            answer = self.access.review(Key(resource, namespace, ""), given, ADMINISTRATOR)
        except Refused as refused:
            raise ApiError(f"{resource.plural}: {refused}", 400) from None
        finally:
            self.waiting -= 1
        if not self.knows_audiences:
            answer["status"].pop("audiences", None)
        return answer

    def _answer(self) -> None:
        if self.away:
            raise ApiError("nobody answers")
