"""Writes labels to the Node, for clusters without Node Feature Discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from koord_service import logs

from koord_devices.core.labels import PREFIX

log = logs.get_log("koord_devices.node_labels")


def change(had: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:
    """The labels to write: ours alone, and ``None`` for those of ours that are over.

    Koordinator's labels of GPUs are its manager's to write.
    """
    ours = {name: value for name, value in found.items() if name.startswith(f"{PREFIX}/")}
    over = dict.fromkeys(name for name in had if name.startswith(f"{PREFIX}/") and name not in ours)
    new = {name: value for name, value in ours.items() if had.get(name) != value}
    return {**over, **new}


def write(node: str, found: Mapping[str, str]) -> bool:
    """Write what changed; whether that worked. A failure is logged."""
    # The API's client costs some megabytes, so it is loaded only where it is asked for.
    from koord_kube.connect import ConnectError, connect
    from koord_kube.protocol.api import ApiError
    from koord_kube.protocol.resources import NODES

    async def run() -> None:
        async with await connect("") as api:
            had = (await api.get(NODES, node)).get("metadata", {}).get("labels") or {}
            wanted = change(had, found)
            if wanted:
                await api.patch(NODES, node, {"metadata": {"labels": wanted}})

    try:
        asyncio.run(run())
    except (ApiError, ConnectError, OSError) as error:
        log.warning("cannot label the node", node=node, error=str(error))
        return False
    return True
