"""Requests of a runtime's API, as tests of both runtimes see them.

``cri_requests`` and ``docker_requests`` make the same of each: a pod called ``life`` and its
container ``main``, with the ids of ``docker_bodies``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class RuntimeRequest(NamedTuple):
    """One request; the target is a gRPC path, or an HTTP method and its target."""

    target: str
    body: bytes = b""


class SentRequest(NamedTuple):
    """A request as the proxy sends it on; ``whole`` is the decoded message."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    cgroup_parent: str
    env: Mapping[str, str]
    cpu_shares: int
    cpu_quota: int
    whole: Any
