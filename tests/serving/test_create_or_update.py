from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.api import ConflictError, Object
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_serving.create_or_update import create_or_update

from tests.support.kube_api import KubeApi

OWN = "koordinator-system"


@pytest.fixture
async def client() -> AsyncIterator[tuple[KubeApi, Client]]:
    async with KubeApi() as api, Client(Cluster(api.url)) as made:
        yield api, made


def one_more(found: Object | None) -> Object | None:
    """The next number."""
    before = found or {"metadata": {"name": "c"}, "data": {"n": "0"}}
    return {**before, "data": {**before["data"], "n": str(int(before["data"]["n"]) + 1)}}


def data(api: KubeApi) -> dict[str, str]:
    found: dict[str, str] = api.get(CONFIG_MAPS, "c", OWN)["data"]
    return found


async def test_it_is_made_then_changed_and_left_alone_where_it_is_right(
    client: tuple[KubeApi, Client],
) -> None:
    api, made = client
    assert await create_or_update(made, CONFIG_MAPS, "c", OWN, one_more)
    assert await create_or_update(made, CONFIG_MAPS, "c", OWN, one_more)
    assert data(api) == {"n": "2"}
    assert not await create_or_update(made, CONFIG_MAPS, "c", OWN, lambda found: found)
    assert not await create_or_update(made, CONFIG_MAPS, "c", OWN, lambda _found: None)
    assert (api.count("create"), api.count("update")) == (1, 1)


@pytest.mark.parametrize("there", [True, False])
async def test_what_somebody_writes_in_between_counts(
    client: tuple[KubeApi, Client], there: bool
) -> None:
    api, made = client
    theirs = {"metadata": {"name": "c"}, "data": {"n": "10", "theirs": "x"}}
    if there:
        await create_or_update(made, CONFIG_MAPS, "c", OWN, one_more)
    seen: list[Object | None] = []

    def wanted(found: Object | None) -> Object | None:
        seen.append(found)
        if len(seen) == 1:
            api.put(CONFIG_MAPS, theirs, OWN)
        return one_more(found)

    assert await create_or_update(made, CONFIG_MAPS, "c", OWN, wanted)
    assert (len(seen), data(api)) == (2, {"n": "11", "theirs": "x"})


async def test_what_changes_all_the_time_is_given_up(client: tuple[KubeApi, Client]) -> None:
    api, made = client
    api.fail(status=409, verb="create", times=5)
    with pytest.raises(ConflictError, match="configmaps c: changes all the time"):
        await create_or_update(made, CONFIG_MAPS, "c", OWN, one_more)
