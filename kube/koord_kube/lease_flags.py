"""The Lease that a program's flags and its configuration file describe together."""

from __future__ import annotations

from typing import Protocol, TypeVar

from koord_kube.core.election import ElectionTiming
from koord_kube.leadership import LeaseSettings

T = TypeVar("T")


class LeaseFlags(Protocol):
    """The flags of leader election; ``None``: as the file has it. Times are in seconds."""

    @property
    def leader_elect(self) -> bool | None: ...
    @property
    def leader_elect_resource_namespace(self) -> str | None: ...
    @property
    def leader_elect_resource_name(self) -> str | None: ...
    @property
    def leader_elect_lease_duration(self) -> float | None: ...
    @property
    def leader_elect_renew_deadline(self) -> float | None: ...
    @property
    def leader_elect_retry_period(self) -> float | None: ...


class ConfiguredLease(Protocol):
    """The ``leaderElection`` of the file, with its defaults."""

    @property
    def leader_elect(self) -> bool: ...
    @property
    def resource_namespace(self) -> str: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def lease_duration(self) -> float: ...
    @property
    def renew_deadline(self) -> float: ...
    @property
    def retry_period(self) -> float: ...


def lease_settings(flags: LeaseFlags, configured: ConfiguredLease) -> LeaseSettings | None:
    """The Lease that replicas compete for, ``None`` without an election; flags count more."""

    def chosen(flag: T | None, value: T) -> T:
        return value if flag is None else flag

    if not chosen(flags.leader_elect, configured.leader_elect):
        return None
    timing = ElectionTiming(
        int(chosen(flags.leader_elect_lease_duration, configured.lease_duration)),
        chosen(flags.leader_elect_renew_deadline, configured.renew_deadline),
        chosen(flags.leader_elect_retry_period, configured.retry_period),
    )
    return LeaseSettings(
        chosen(flags.leader_elect_resource_name, configured.resource_name),
        chosen(flags.leader_elect_resource_namespace, configured.resource_namespace),
        timing,
    )
