"""A scheduler's pages: how it stands, and why a pod waits or is where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from koord_model.version import VERSION
from koord_service.status import MakePage, Query, QueryError, json_page

from koord_scheduler.program.explanation import Document


@dataclass(frozen=True)
class SchedulerPageSources:
    """The sources of pages; threads call them, and only read.

    ``why`` says what is known of a pod by namespace/name, as ``explanation`` has it.
    """

    status: Callable[[], Document]
    why: Callable[[str], Document]


def pages(known: SchedulerPageSources) -> dict[str, MakePage]:
    """The pages that people ask for."""
    return {
        "/v1/status": lambda _: json_page({"version": VERSION, **known.status()}),
        "/v1/why": lambda query: json_page(known.why(_pod(query))),
    }


def _pod(query: Query) -> str:
    pod = query.values.get("pod", "")
    namespace, _, name = pod.partition("/")
    if not namespace or not name or "/" in name:
        raise QueryError(f'parameter "pod" is "{pod}"; expected NAMESPACE/NAME')
    return pod
