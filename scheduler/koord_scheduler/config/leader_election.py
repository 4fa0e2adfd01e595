"""The ``leaderElection`` of the configuration, checked. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from koord_model import duration

from koord_scheduler.arguments.problems import SchedulerConfigError, problem, refuse_if
from koord_scheduler.config.component_config import LeaderElectionConfiguration

_DURATIONS = ("leaseDuration", "renewDeadline", "retryPeriod")
_JITTER = 1.2
"""Kubernetes': a retry may come this much later."""


@dataclass(frozen=True)
class LeaderElectionSettings:
    """Election of the scheduler that places pods; durations in seconds."""

    leader_elect: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    resource_name: str
    resource_namespace: str


def leader_election_settings(given: LeaderElectionConfiguration) -> LeaderElectionSettings:
    """The settings; a duration of 0 means the default, as an empty name does.

    Raises:
        SchedulerConfigError: with leader election on, kube-scheduler would not start with them.
    """
    lease, renew, retry = (
        _seconds(name, text)
        for name, text in zip(
            _DURATIONS,
            (given.lease_duration, given.renew_deadline, given.retry_period),
            strict=True,
        )
    )
    settings = LeaderElectionSettings(
        given.leader_elect,
        lease or 15.0,
        renew or 10.0,
        retry or 2.0,
        given.resource_name or type(given)().resource_name,
        given.resource_namespace or type(given)().resource_namespace,
    )
    if given.leader_elect:
        refuse_if(_election_problems(given, settings))
    return settings


def _seconds(name: str, text: str) -> float:
    try:
        return 0.0 if text == "0" else duration.seconds(text)
    except ValueError:
        expected = "a duration like 15s or 1m30s"
        raise SchedulerConfigError([problem(f"leaderElection.{name}", text, expected)]) from None


def _election_problems(
    given: LeaderElectionConfiguration, settings: LeaderElectionSettings
) -> Iterator[str]:
    if given.resource_lock not in ("", "leases"):
        yield problem("leaderElection.resourceLock", given.resource_lock, "leases")
    if settings.lease_duration <= settings.renew_deadline:
        renew = duration.written(settings.renew_deadline)
        expected = f"more than renewDeadline ({renew})"
        yield problem("leaderElection.leaseDuration", given.lease_duration, expected)
    if settings.renew_deadline <= _JITTER * settings.retry_period:
        retry = duration.written(_JITTER * settings.retry_period)
        expected = f"more than 1.2 times retryPeriod ({retry})"
        yield problem("leaderElection.renewDeadline", given.renew_deadline, expected)
