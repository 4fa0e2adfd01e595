"""What the interceptor needs of a client's API, so that CRI's and Docker's are treated alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from koord_hooks.stages import Stage

from koord_proxy.events import RequestArrived
from koord_proxy.rules.merge import ContainerFacts, Facts, Field, Merge, PodFacts
from koord_proxy.rules.methods import Method


class Written(NamedTuple):
    """A request with what hooks changed; None if that is nothing.

    ``left_out`` are changes that the API has no field for.
    """

    message: bytes | None
    left_out: tuple[Field, ...] = ()


class Asked(Protocol):
    """An intercepted request that was read."""

    @property
    def method(self) -> Method:
        """What the request amounts to."""

    @property
    def id(self) -> str:
        """The pod or container it is about; empty if it makes one."""

    @property
    def sandbox(self) -> str:
        """The pod it makes a container in; empty if it makes none."""

    @property
    def tells_pod(self) -> bool:
        """Whether it says of the pod what hooks want to know."""

    def made(self, pod: PodFacts | None) -> Facts:
        """The facts of what it makes, in a pod that may be known."""

    def updated(self, known: ContainerFacts) -> ContainerFacts:
        """The facts of a container with what an update sets laid over them: a copy."""

    def written(self, merge: Merge) -> Written:
        """The request, with what hooks changed."""

    def made_id(self, response: bytes) -> str:
        """The id of what it has made; empty if that cannot be read."""


class Language(Protocol):
    """An API: which of its calls are intercepted, and how they are read."""

    def call(self, target: str) -> str:
        """The name of an intercepted call; empty for one that is merely relayed."""

    def stages(self, call: str) -> Sequence[Stage]:
        """What may have to be asked before a call of this name goes on."""

    def label(self, target: str) -> str:
        """What a call is counted under."""

    def read(self, arrived: RequestArrived) -> Asked | None:
        """Read a request; None where it turns out to be about nothing of Kubernetes'.

        Raises:
            ValueError: it cannot be read; one line that says why.
        """
