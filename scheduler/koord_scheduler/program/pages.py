"""A scheduler's pages: how it stands, why a pod waits or is where it is, and the web page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from koord_model.version import VERSION
from koord_service.status import MakePage, json_page
from koord_service.web_pages import web_pages

from koord_scheduler.program import web
from koord_scheduler.program.explanation import Document


@dataclass(frozen=True)
class SchedulerPageSources:
    """The sources of pages; threads call them, and only read.

    ``overview`` is what the web page shows, ``status`` included. ``why`` says what is known of a
    pod by namespace/name, as ``explanation`` has it. ``gangs`` lists those of the cluster,
    ``devices`` the parts of nodes' devices that are requested.
    """

    status: Callable[[], Document]
    overview: Callable[[], Document]
    why: Callable[[str], Document]
    gangs: Callable[[], Document]
    devices: Callable[[], Document]


def pages(known: SchedulerPageSources) -> dict[str, MakePage]:
    """The pages that people ask for."""
    return {
        **web_pages(web),
        "/v1/overview": lambda _: json_page({"version": VERSION, **known.overview()}),
        "/v1/status": lambda _: json_page({"version": VERSION, **known.status()}),
        "/v1/gangs": lambda _: json_page({"version": VERSION, **known.gangs()}),
        "/v1/devices": lambda _: json_page(known.devices()),
        "/v1/why": lambda query: json_page(known.why(query.pod())),
    }
