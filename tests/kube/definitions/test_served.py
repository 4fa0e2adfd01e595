"""What a server that has the definitions keeps of objects, and what it refuses.

Another ``ask`` fixture tries another server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.kube.definitions.documents import UNKNOWN, WHOLE, WRONG, document
from tests.support.admin_client import AdminClient, Answer
from tests.support.kube_api import KubeApi

__all__ = ["TestDocuments"]

Object = dict[str, Any]

_OF_KIND = {
    (one["spec"]["names"]["kind"], version["name"]): (one["spec"], version)
    for one in DEFINITIONS
    for version in one["spec"]["versions"]
}


@pytest.fixture
async def ask() -> AsyncIterator[AdminClient]:
    """An administrator at the double."""
    async with KubeApi() as api, aiohttp.ClientSession() as session:
        yield AdminClient(api.url, session)


async def written(ask: AdminClient, given: Object) -> Answer:
    """What comes of an object that is made and then gets its status."""
    group, _, version = given["apiVersion"].partition("/")
    spec, served = _OF_KIND[given["kind"], version]
    below = "" if spec["scope"] == "Cluster" else "/namespaces/default"
    path = f"/apis/{group}/{version}{below}/{spec['names']['plural']}"
    made = await ask("POST", path, given)
    if made.status != 201 or "status" not in given or "subresources" not in served:
        return made
    whole = made.said | {"status": given["status"]}
    return await ask("PUT", f"{path}/{given['metadata']['name']}/status", whole)


class TestDocuments:
    """Needs a server, as ``ask``, with nothing in it that is called as the objects are."""

    @pytest.fixture(autouse=True)
    async def _definitions(self, ask: AdminClient) -> None:
        for one in DEFINITIONS:
            await ask.define(one)

    @pytest.mark.parametrize("name", WHOLE)
    async def test_they_are_kept_whole(self, ask: AdminClient, name: str) -> None:
        given = document(name)
        answer = await written(ask, given)
        assert answer.status in (200, 201), answer
        kept = {field: one for field, one in answer.said.items() if field != "metadata"}
        assert kept == {field: one for field, one in given.items() if field != "metadata"}

    async def test_a_profile_without_a_patch(self, ask: AdminClient) -> None:
        given = document("profile", {"spec": {"patch": None}})
        assert (await written(ask, given)).said["spec"] == {"patch": None}

    @pytest.mark.parametrize(("name", "change", "field"), WRONG)
    async def test_what_is_wrong(
        self, ask: AdminClient, name: str, change: Object, field: str
    ) -> None:
        answer = await written(ask, document(name, change))
        assert (answer.refusal, answer.causes) == ((422, "Invalid"), [field])

    @pytest.mark.parametrize(("name", "change", "field"), UNKNOWN)
    async def test_what_is_unknown(
        self, ask: AdminClient, name: str, change: Object, field: str
    ) -> None:
        answer = await written(ask, document(name, change))
        above, _, last = field.rpartition(".")
        found = answer.said[above] if above else answer.said
        assert last not in found
