"""A scheduler's pages: how it stands, and why a pod waits or is where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from koord_model.version import VERSION
from koord_service.status import MakePage, Query, QueryError, json_page

from koord_scheduler.framework.diagnosis import Diagnosis
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.placement_report import NodeScores

Document = Mapping[str, Any]


@dataclass(frozen=True)
class SchedulerPageSources:
    """The sources of pages; threads call them, and only read.

    ``why`` says what is known of a pod by namespace/name, ``None`` if nothing is.
    """

    status: Callable[[], Document]
    why: Callable[[str], Document | None]


def pages(known: SchedulerPageSources) -> dict[str, MakePage]:
    """The pages that people ask for."""
    return {
        "/v1/status": lambda _: json_page({"version": VERSION, **known.status()}),
        "/v1/why": lambda query: json_page(_why(known, query)),
    }


def _why(known: SchedulerPageSources, query: Query) -> Document:
    pod = query.values.get("pod", "")
    if pod.count("/") != 1:
        raise QueryError(f'parameter "pod" is "{pod}"; expected NAMESPACE/NAME')
    found = known.why(pod)
    if found is None:
        raise QueryError(f"{pod} is not a pod that this scheduler knows", 404)
    return found


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Why pods of a class fit on few nodes, or on none."""
    return {
        "message": fit_error_message(diagnosis),
        "nodes": diagnosis.nodes,
        "feasible": diagnosis.feasible,
        "plugins": [asdict(one) for one in diagnosis.plugins],
        "reasons": diagnosis.reasons,
        "nearest": [
            {
                "node": one.node,
                "lacks": {lack.resource: lack.quantity for lack in one.lacks},
                "plugins": one.plugins,
            }
            for one in diagnosis.nearest
        ],
    }


def scores_document(report: Sequence[NodeScores]) -> Sequence[Document]:
    """The best nodes, each with its score by plugin."""
    return [asdict(one) for one in report]
