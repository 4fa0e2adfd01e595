"""What a plugin shows of itself, below ``/apis/v1/plugins/NAME``. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from koord_scheduler.state.cluster_state import ClusterState

Service = Callable[[Mapping[str, str]], Any]
"""A document, as plain data, for the parameters of a request: parts of its path and its query.

It is called between decisions, which wait for it. It raises LookupErrors with a line where there
is no such thing.
"""


@runtime_checkable
class ServiceProvider(Protocol):
    """A plugin that shows something; of one that several profiles enable, the first one does."""

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """By path; a part of it that begins with ":" is a parameter: "/nodes/:node"."""
        ...
