"""Says in the status of PodGroups how far their pods are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing

import msgspec
from koord_kube.client import Client
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import POD_GROUPS, PODS
from koord_kube.protocol.selectors import label_is
from koord_model.keys import LABEL_POD_GROUP
from koord_model.names import is_label_value
from koord_model.times import rfc3339

from koord_scheduler.extension_points.api_services import Write
from koord_scheduler.gangs.gang_spec import GangSource
from koord_scheduler.gangs.gangs import Gang, Gangs
from koord_scheduler.gangs.pod_group import PodGroup, PodGroupStatus
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.coscheduling.group_conditions import conditions_patch
from koord_scheduler.plugins.coscheduling.pod_group_status import (
    MemberPhases,
    is_settled,
    next_status,
)

ENDED = ("Succeeded", "Failed")
EndedPods = Callable[[str, str], AsyncIterator[str]]
"""The phases of the ended pods of a PodGroup, by its namespace and name."""


class PodGroupController:
    """Runs while this scheduler leads, and writes what has changed.

    Pods that have ended are not in the scheduler's cache: they are read where a group has fewer
    pods than its status says.
    """

    name = "PodGroups"
    every = 1.0

    def __init__(
        self,
        gangs: Gangs,
        write: Write,
        ended_pods: EndedPods,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._gangs = gangs
        self._write = write
        self._ended_pods = ended_pods
        self._wall = wall
        self._is_new = True

    def due(self) -> Iterable[str]:
        """Return the groups that changed; at first all."""
        touched = self._gangs.touched
        if self._is_new:
            touched.update(self._gangs.by_key)
            self._is_new = False
        keys = sorted(touched)
        touched.clear()
        return keys

    async def reconcile(self, key: str) -> None:
        """Write what has changed of a group."""
        gang = self._gangs.by_key.get(key)
        if gang is None or gang.pod_group is None:
            return
        if gang.pod_group.spec.source is GangSource.KUBERNETES:
            await self._write_conditions(gang)
        else:
            await self._write_status(gang, gang.pod_group)

    async def _write_conditions(self, gang: Gang) -> None:
        request = conditions_patch(self._gangs, gang, rfc3339(self._wall()))
        if request is not None:
            await self._write(request)

    async def _write_status(self, gang: Gang, group: PodGroup) -> None:
        minimum = group.spec.min_member
        if is_settled(group.status, minimum, group.spec.created):
            return
        pods = await self._phases(gang, group)
        status = next_status(group.status, minimum, pods, rfc3339(self._wall()))
        if status != group.status:
            await self._write(status_patch(group, status))

    async def _phases(self, gang: Gang, group: PodGroup) -> MemberPhases:
        phases = Counter(member.phase for member in gang.members.values())
        bound, total = len(gang.bound), len(gang.members)
        status = group.status
        if bound < status.scheduled:
            namespace, _, name = gang.key.partition("/")
            ended = Counter([phase async for phase in self._ended_pods(namespace, name)])
            phases.update(ended)
            bound, total = bound + ended.total(), total + ended.total()
        owners = next(iter(gang.members.values())).owners if gang.members else ""
        return MemberPhases(
            total, bound, phases["Running"], phases["Succeeded"], phases["Failed"], owners
        )


async def ended_pods(api: Client, namespace: str, name: str) -> AsyncIterator[str]:
    """The phases of the pods of a PodGroup that have ended, as the API has them."""
    if not is_label_value(name):
        return  # no pod can name it
    pages = api.pages(PODS, namespace, label_selector=label_is(LABEL_POD_GROUP, name))
    async with aclosing(pages):
        async for page in pages:
            for raw in page.items:
                phase = read_pod(raw).status.phase
                if phase in ENDED:
                    yield phase


def status_patch(group: PodGroup, status: PodGroupStatus) -> Request:
    """Write the status of a PodGroup that is as it was when that was decided.

    Koordinator's definition has no status subresource.
    """
    namespace, _, name = group.spec.key.partition("/")
    before, after = (msgspec.to_builtins(one) for one in (group.status, status))
    gone = dict.fromkeys(before.keys() - after.keys(), 0)
    metadata = {"uid": group.uid, "resourceVersion": group.resource_version}
    body = {"metadata": metadata, "status": {**gone, **after}}
    return Request("PATCH", POD_GROUPS, name, namespace, body=body)
