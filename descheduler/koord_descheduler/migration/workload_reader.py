"""Reads the desired replicas of workloads that somebody asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from koord_kube.protocol.api import Api, ApiError, NotFoundError
from koord_kube.protocol.resources import Resource

from koord_descheduler.objects.observed_pod import WorkloadName
from koord_descheduler.planner.workloads import Replicas, Workloads

_AT_ONCE = 8
_JOB = ("batch/v1", "Job")


class WorkloadReader:
    """Asks for the scale of each, and of a Job how many of its pods run at a time."""

    def __init__(
        self,
        api: Api,
        workloads: Workloads,
        *,
        every: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._workloads = workloads
        self._every = every
        self._monotonic = monotonic
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.read_due()
            await anyio.sleep(self._every)

    async def read_due(self) -> None:
        """Read all that is due."""
        async with anyio.create_task_group() as group:
            for workload in self._workloads.due(self._monotonic()):
                group.start_soon(self._read, workload)

    async def _read(self, workload: WorkloadName) -> None:
        async with self._turns:
            try:
                replicas = await self._replicas(workload)
            except NotFoundError:
                replicas = Replicas(problem=f"{_resource(workload).plural} have no scale")
            except ApiError as error:
                if error.is_outage or error.status == 429 or error.status >= 500:
                    return  # what was known stays, and it is asked for again
                replicas = Replicas(problem=str(error))
        self._workloads.learn(workload, replicas, self._monotonic())

    async def _replicas(self, workload: WorkloadName) -> Replicas:
        resource = _resource(workload)
        if (workload.api_version, workload.kind) == _JOB:
            found = await self._api.get(resource, workload.name, workload.namespace)
            return Replicas(found["spec"].get("parallelism", 1))
        name, namespace = workload.name, workload.namespace
        found = await self._api.get(resource, name, namespace, "scale")
        return Replicas(found.get("spec", {}).get("replicas", 0))


def _resource(workload: WorkloadName) -> Resource:
    """The plural as Kubernetes guesses it from the kind, which is right but for odd words."""
    group, _, version = workload.api_version.rpartition("/")
    word = workload.kind.lower()
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}{'es' * word.endswith('s')}"
    plural = plural if word.endswith(("y", "s")) else f"{word}s"
    return Resource(group, version, plural, workload.kind, namespaced=True)
