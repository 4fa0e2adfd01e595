"""A descheduler's pages: how it stands, the next round, and why a pod moved or stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from koord_model.version import VERSION
from koord_service.status import MakePage, json_page

from koord_descheduler.program.plan_document import Document


@dataclass(frozen=True)
class DeschedulerPageSources:
    """The sources of pages; threads call them, and only read.

    ``overview`` is ``status`` and the last round at a glance, for the cluster page. ``plan`` plans
    the next round without doing it, ``last`` is the last one. ``why`` says what is known of a pod
    by namespace/name.
    """

    status: Callable[[], Document]
    overview: Callable[[], Document]
    plan: Callable[[], Document]
    last: Callable[[], Document]
    why: Callable[[str], Document]


def pages(known: DeschedulerPageSources) -> dict[str, MakePage]:
    """The pages that people ask for."""
    return {
        "/v1/status": lambda _: json_page({"version": VERSION, **known.status()}),
        "/v1/overview": lambda _: json_page({"version": VERSION, **known.overview()}),
        "/v1/plan": lambda _: json_page({"version": VERSION, **known.plan()}),
        "/v1/round": lambda _: json_page({"version": VERSION, **known.last()}),
        "/v1/why": lambda query: json_page(known.why(query.pod())),
    }
