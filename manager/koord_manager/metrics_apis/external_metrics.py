"""Group external.metrics.k8s.io: metrics that ServiceProfileDescriptors have, as in Katalyst."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web
from koord_model.excerpt import excerpt
from koord_serving.aggregated.core.list_options import StatusError, form
from koord_serving.aggregated.json_stream import prepare, write

from koord_manager.metrics_apis.core.metric_values import (
    EXTERNAL_GROUP,
    EXTERNAL_KIND,
    EXTERNAL_VERSION,
    external_value,
    resource_list,
    value_list,
)
from koord_manager.metrics_apis.core.service_metrics import METRIC, read_question, unpacked
from koord_manager.metrics_apis.requests import add_read_only, constant, list_options
from koord_manager.metrics_apis.sources import unavailable

_BASE = f"/apis/{EXTERNAL_GROUP}/{EXTERNAL_VERSION}"

Descriptors = Callable[[], Mapping[str, bytes] | None]


class ExternalMetricsGroup:
    """``descriptors`` have packed values by namespace/name, ``None`` while they are not known."""

    name = EXTERNAL_GROUP
    versions: Sequence[str] = (EXTERNAL_VERSION,)

    def __init__(self, descriptors: Descriptors, *, clock: Callable[[], float] = time.time) -> None:
        self._descriptors = descriptors
        self._clock = clock

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add what is below /apis/external.metrics.k8s.io/v1beta1."""
        names = [(METRIC, True)]
        discovery = resource_list(EXTERNAL_GROUP, EXTERNAL_VERSION, EXTERNAL_KIND, names)
        router.add_get(_BASE, constant(discovery))
        add_read_only(router, f"{_BASE}/namespaces/{{namespace}}/{{metric}}", self._values)

    async def _values(self, request: web.Request) -> web.StreamResponse:
        form(",".join(request.headers.getall("Accept", [])))  # refuses what is not JSON
        value = self._value(request)
        response = await prepare(request)
        await write(response, value_list(EXTERNAL_GROUP, EXTERNAL_VERSION, EXTERNAL_KIND, [value]))
        return response

    def _value(self, request: web.Request) -> bytes:
        metric, namespace = request.match_info["metric"], request.match_info["namespace"]
        if metric != METRIC:
            message = f"there is no external metric {excerpt(metric)}; there is {METRIC}"
            raise StatusError(404, "NotFound", message)
        try:
            question = read_question(list_options(request.query).labels)
        except ValueError as error:
            raise StatusError(400, "BadRequest", str(error)) from None
        known = self._descriptors()
        if known is None:
            raise unavailable(
                "this manager leads since a moment ago; it still reads ServiceProfileDescriptors"
            )
        about = f"ServiceProfileDescriptor {namespace}/{question.descriptor}"
        packed = known.get(f"{namespace}/{question.descriptor}")
        if packed is None:
            raise StatusError(404, "NotFound", f"there is no {about}")
        found = question.answer(unpacked(packed), self._clock())
        if found is None:
            message = (
                f"{about} has no {excerpt(question.resource)} of container "
                f"{excerpt(question.container)} in scope {excerpt(question.scope)} by now"
            )
            raise StatusError(404, "NotFound", message)
        return external_value(METRIC, question.labels, found.time, found.value, found.window)
