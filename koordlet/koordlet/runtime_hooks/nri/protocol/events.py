"""Events of a plugin's connection for the shell around it.

The other direction is said by calling ``Plugin``: ``register``, ``answer``,
``update_containers``.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message
from koord_proto import nri_pb2 as pb

from koordlet.runtime_hooks.nri.protocol.methods import NriMethod


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The runtime's description of itself; timeouts in seconds, None where it sent none."""

    name: str
    version: str
    config: str = ""
    """The plugin's part of the runtime's configuration."""
    nri_version: str = ""
    registration_timeout: float | None = None
    request_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class RegistrationResponse:
    """The runtime took the registration."""


@dataclass(frozen=True, slots=True)
class RegistrationRejection:
    """The runtime did not take the registration; it closes the connection."""

    reason: str


@dataclass(frozen=True, slots=True)
class ConfigureRequest:
    """The runtime said who it is, and has the subscription."""

    runtime: RuntimeInfo


@dataclass(frozen=True, slots=True)
class IncomingCall:
    """A call that the runtime waits for: ``answer`` it.

    A synchronisation that came in several messages is one call. What older
    runtimes send as a change of state is the call that newer ones make.
    """

    id: int
    method: NriMethod
    request: Message
    timeout: float | None
    """Seconds until the runtime breaks the connection; None if it did not say."""


@dataclass(frozen=True, slots=True)
class UpdateResponse:
    """An ``update_containers`` of ours ended."""

    id: int
    failed: tuple[pb.ContainerUpdate, ...] = ()
    error: str = ""
    """Reason for which the runtime did none of it; empty where it tried."""


@dataclass(frozen=True, slots=True)
class ShutdownRequest:
    """The runtime goes away in order."""


Event = (
    RegistrationResponse
    | RegistrationRejection
    | ConfigureRequest
    | IncomingCall
    | UpdateResponse
    | ShutdownRequest
)
