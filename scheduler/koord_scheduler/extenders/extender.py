"""An extender as it is configured, and which pods it is asked about. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koord_scheduler.state.pod_class import PodClass


@dataclass(frozen=True)
class ExtenderTLS:
    """Paths of PEM files, or their contents (``data``), which count more; "" if there are none.

    ``server_name`` is the name in the server's certificate if it is not that of the URL. Without
    ``verifies`` any certificate will do.
    """

    verifies: bool = True
    server_name: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_data: bytes = b""
    cert_data: bytes = b""
    key_data: bytes = b""


@dataclass(frozen=True)
class Extender:
    """A program at ``url`` that is asked about pods; a verb is "" if it is not asked for that.

    With ``has_node_cache`` it gets names of nodes and uids of victims, otherwise the objects. An
    ``ignorable`` one that fails is passed over. It is asked about pods that name a resource of
    ``managed_resources``; about all if there are none. ``timeout`` is in seconds.
    """

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    has_node_cache: bool = False
    ignorable: bool = False
    managed_resources: frozenset[str] = frozenset()
    timeout: float = 5.0
    tls: ExtenderTLS = ExtenderTLS()

    def is_interested(self, pod: PodClass) -> bool:
        """True if it is asked about the pods of a class."""
        managed = self.managed_resources
        return not managed or any(name in managed for name, _ in pod.amounts)


def interested(extenders: Iterable[Extender], pod: PodClass) -> tuple[Extender, ...]:
    """Those that are asked about the pods of a class."""
    return tuple(extender for extender in extenders if extender.is_interested(pod))
