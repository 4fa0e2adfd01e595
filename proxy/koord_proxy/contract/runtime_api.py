"""The interceptor's view of a runtime's API: the same for CRI and Docker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from koord_hooks.protocol import HookRequest
from koord_hooks.stages import Stage

from koord_proxy.contract.events import RequestArrived
from koord_proxy.rules.merge import ContainerHookRequest, Field, Merge, PodHookRequest
from koord_proxy.rules.methods import InterceptedMethod
from koord_proxy.rules.records import RequestedLimits


class RewrittenRequest(NamedTuple):
    """A request with the changes of hooks; None if there are none.

    ``left_out`` are changes for which the API has no field.
    """

    message: bytes | None
    left_out: tuple[Field, ...] = ()


class InterceptedRequest(Protocol):
    """A decoded request of an intercepted call."""

    @property
    def method(self) -> InterceptedMethod:
        """The CRI method that the request corresponds to."""

    @property
    def id(self) -> str:
        """The id of the pod or container; empty if the request creates it."""

    @property
    def sandbox(self) -> str:
        """The id of the pod in which it creates a container; otherwise empty."""

    @property
    def describes_pod(self) -> bool:
        """True if the request itself says all about the pod that hooks need."""

    def new_hook_request(self, pod: PodHookRequest | None) -> HookRequest:
        """The hook request of what it creates; ``pod`` is that of a container's pod, if known."""

    def updated_hook_request(self, known: ContainerHookRequest) -> ContainerHookRequest:
        """A copy of a container's hook request with the values of an update applied."""

    def rewrite(self, merge: Merge, *, complete: bool = True) -> RewrittenRequest:
        """The request with the changes of hooks.

        ``complete`` says that what an update leaves out is known to be in force, and may be added.
        """

    def created_id(self, response: bytes) -> str:
        """The id in the response to a create; empty if it cannot be decoded."""


class RuntimeApi(Protocol):
    """A runtime's API: which calls are intercepted, and how their requests are decoded."""

    def call(self, target: str) -> str:
        """The name of an intercepted call; empty for a call that is only relayed."""

    def rewrites_answer(self, target: str) -> bool:
        """True if answers to a call contain a container's limits."""

    def rewrite_answer(
        self, message: bytes, requested: Callable[[str], RequestedLimits | None]
    ) -> bytes | None:
        """The answer with the limits that the kubelet requested; ``None``: as it is.

        ``requested`` returns them for a container's id, ``None`` where hooks changed nothing.

        Raises:
            ValueError: it cannot be decoded.
        """

    def stages(self, call: str) -> Sequence[Stage]:
        """The stages that may have hooks before a call of this name goes on."""

    def label(self, target: str) -> str:
        """The label of a call in metrics."""

    def update(self, id: str) -> InterceptedRequest:  # noqa: A002
        """An update request of the proxy's own, which sets nothing yet."""

    def parse(self, arrived: RequestArrived) -> InterceptedRequest | None:
        """Decode a request; None if it does not concern a Kubernetes pod or container.

        Raises:
            ValueError: it cannot be decoded; the message is one line.
        """
