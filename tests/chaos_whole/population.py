"""The pods that are wanted, which come and go, and which of them are not as they must be."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence

from koord_kube.protocol.resources import PODS

from tests.chaos_whole.api import Api, Document, RefusedError
from tests.chaos_whole.pods import (
    BATCH,
    EXCLUSIVE,
    NAMESPACE,
    PLAIN,
    SERVICE,
    PodKind,
    given_cpus,
    is_rejected,
    why_wrong,
)
from tests.chaos_whole.whole import OFFLINE
from tests.support.own_machine import OwnMachine
from tests.support.processes import PATIENCE, until

Wrong = Mapping[str, str]
"""What is not right, by pod."""
LOOK_SECONDS = 0.1
STEADY_SECONDS = 2.0
"""For so long all must stay right, or it was not."""
_SHARES = ((BATCH, 10), (SERVICE, 5), (PLAIN, 4), (EXCLUSIVE, 1))
"""Of twenty; a machine of two CPUs has no room for more exclusive ones."""


class Population:
    """Wanted pods by name. ``create`` and ``delete`` go on until the API server has answered."""

    def __init__(self, api: Api, machine: OwnMachine) -> None:
        self._api, self._machine = api, machine
        self._numbers = itertools.count(1)
        self.wanted: dict[str, PodKind] = {}
        self.rejected = 0
        """Pods that the kubelet did not take: what the node offered became less meanwhile."""

    def create(self, kind: PodKind) -> str:
        """Ask for a pod, and return its name."""
        name = f"{kind.name}-{next(self._numbers)}"
        document = kind.document(name)
        self._insist(lambda: self._api.create(PODS, document, NAMESPACE), exists=409)
        self.wanted[name] = kind
        return name

    def delete(self, name: str) -> None:
        self._insist(lambda: self._api.delete(PODS, name, NAMESPACE), exists=404)
        del self.wanted[name]

    def clear(self) -> None:
        for name in [*self.wanted]:
            self.delete(name)
        self.settle("nothing is left")

    def change(self, name: str, kind: PodKind, change: Document, subresource: str = "") -> None:
        """Make another kind of a pod."""
        self._api.patch(PODS, name, change, NAMESPACE, subresource=subresource)
        self.wanted[name] = kind

    def list(self) -> Sequence[Document]:
        return self._api.list(PODS, NAMESPACE)

    def pod(self, name: str) -> Document:
        return self._api.get(PODS, name, NAMESPACE)

    def fill(self, number: int) -> None:
        """So many pods, of all kinds."""
        for kind, share in _SHARES:
            for _ in range(max(1, number * share // 20)):
                self.create(kind)

    def replace(self, chance: random.Random, number: int) -> None:
        """Let some pods go, and others of their kinds come."""
        for name in chance.sample(sorted(self.wanted), number):
            self._replace(name)

    def wrong(self) -> Wrong:
        """What is not right now; a rejected pod is replaced, as controllers do."""
        try:
            pods = self.list()
        except OFFLINE as error:
            return {"the API server": f"{type(error).__name__}: {error}"}
        there = {one["metadata"]["name"]: one for one in pods}
        rejected = {name for name, one in there.items() if is_rejected(one)} & self.wanted.keys()
        for name in rejected:
            self._replace(name)
        self.rejected += len(rejected)
        found = dict.fromkeys(there.keys() - self.wanted.keys(), "is not gone")
        for name, kind in self.wanted.items():
            why = why_wrong(self._machine, kind, there[name]) if name in there else "is not there"
            if why is not None:
                found[name] = why
        return found or _overlaps(there.values())

    def settle(self, what: str = "every pod is right", seconds: float = PATIENCE) -> None:
        """Wait until every pod is right."""
        last: Wrong = {}

        def right() -> bool:
            nonlocal last
            last = self.wrong()
            return not last

        try:
            until(right, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not within {seconds:g} s: {what}: {_reported(last)}") from None

    def seconds_until_right(self, since: float, limit: float) -> float:
        """From ``since`` until every pod was right, and stayed so for a while.

        Raises:
            AssertionError: it never was in time; with what is not right.
        """
        right_since: float | None = None
        while True:
            now = time.monotonic()
            wrong = self.wrong()
            right_since = None if wrong else right_since or now
            if right_since is not None and now - right_since >= STEADY_SECONDS:
                return right_since - since
            assert now - since < limit, f"after {limit:g} s: {_reported(wrong)}"
            time.sleep(LOOK_SECONDS)

    def _replace(self, name: str) -> None:
        kind = self.wanted[name]
        self.delete(name)
        self.create(kind)

    def _insist(self, ask: Callable[[], object], *, exists: int) -> None:
        """Ask until it is answered; the answer to an earlier attempt may have been lost."""

        def asked() -> bool:
            try:
                ask()
            except OFFLINE as error:
                status = error.status if isinstance(error, RefusedError) else 503
                if status < 500 and status not in (exists, 429):
                    raise
                return status == exists
            return True

        until(asked, "the API server answers")


def _overlaps(pods: Sequence[Document] | object) -> Wrong:
    """Pods that have a CPU which is another pod's own."""
    found: dict[str, str] = {}
    owners: dict[int, str] = {}
    for pod in pods:  # type: ignore[attr-defined]
        name = pod["metadata"]["name"]
        for cpu in given_cpus(pod):
            if cpu in owners:
                found[name] = f"CPU {cpu} is {owners[cpu]}'s, too"
            owners[cpu] = name
    return found


def _reported(wrong: Wrong) -> str:
    return "; ".join(f"{name}: {why}" for name, why in sorted(wrong.items())) or "nothing is wrong"
