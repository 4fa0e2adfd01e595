"""Group metrics.k8s.io, by which `kubectl top` and HorizontalPodAutoscalers read usage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from aiohttp import web
from koord_model.label_selector import LabelSelector
from koord_serving.aggregated.core.list_options import ListOptions, StatusError, form, parse
from koord_serving.aggregated.json_stream import prepare, write

from koord_manager.metrics_apis.core import documents
from koord_manager.metrics_apis.core.documents import (
    API_VERSION,
    GROUP,
    NODES,
    PODS,
    VERSION,
    Document,
    Kind,
)
from koord_manager.metrics_apis.core.pods import MetricPod, PodIndex
from koord_manager.metrics_apis.core.reports import UsageReport, report_of
from koord_manager.node_metric.core.store import NodeMetricStore
from koord_manager.slo_config.core.colocation import ColocationStrategy

_RETRY_SECONDS = 2
_BASE = f"/apis/{API_VERSION}"
_IN_NAMESPACE = f"{_BASE}/namespaces/{{namespace}}/{PODS.plural}"


@dataclass(frozen=True)
class UsageSources:
    """Sources of the answers.

    ``complete`` says whether nodes had the time to report. ``pods`` are all that are on nodes,
    ``None`` while these are not known; ``labels`` are a node's.
    """

    store: NodeMetricStore
    complete: Callable[[], bool]
    pods: Callable[[], PodIndex | None]
    labels: Callable[[str], Mapping[str, str]]
    strategy: Callable[[str], ColocationStrategy]


class ResourceMetricsGroup:
    """Usage is decoded of the NodeMetrics when it is asked for; nothing of it is kept.

    ``limit`` is not followed: a list comes whole, which the API leaves to servers.
    """

    name = GROUP
    versions: Sequence[str] = (VERSION,)

    def __init__(
        self,
        sources: UsageSources,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._clock = clock
        self._monotonic = monotonic

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add what is below /apis/metrics.k8s.io/v1beta1."""
        router.add_get(_BASE, _discovery)
        for path, handler in (
            (f"{_BASE}/{NODES.plural}", self._nodes),
            (f"{_BASE}/{NODES.plural}/{{name}}", self._node),
            (f"{_BASE}/{PODS.plural}", self._pods),
            (_IN_NAMESPACE, self._pods),
            (f"{_IN_NAMESPACE}/{{name}}", self._pod),
        ):
            router.add_get(path, handler, allow_head=False)
            router.add_route("*", path, _read_only)

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        self._require_complete()
        options = _list_options(request)
        labels = self._sources.labels
        kept = (stored.name for stored in self._sources.store.page().objects)
        chosen = (name for name in kept if _selects(options, name, labels(name)))
        return await _list(request, NODES, self._node_documents(chosen), options)

    async def _node(self, request: web.Request) -> web.StreamResponse:
        self._require_complete()
        name = request.match_info["name"]
        return _one(request, NODES, name, self._node_documents([name]))

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        pods, options = self._known_pods(), _list_options(request)
        chosen = (
            pod
            for pod in pods.of(request.match_info.get("namespace", ""))
            if _selects(options, pod.name, pod.labels)
        )
        return await _list(request, PODS, self._pod_documents(chosen), options)

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = self._known_pods().get(namespace, name)
        return _one(request, PODS, name, self._pod_documents([found] if found else []))

    def _node_documents(self, names: Iterable[str]) -> Iterator[Document]:
        now = self._clock()
        for name in names:
            report = self._report(name)
            made = report and documents.node_document(name, self._sources.labels(name), report, now)
            if made:
                yield made

    def _pod_documents(self, pods: Iterable[MetricPod]) -> Iterator[Document]:
        """By node, so that each report is decoded once."""
        now = self._clock()
        by_node: dict[str, list[MetricPod]] = {}
        for pod in pods:
            by_node.setdefault(pod.node, []).append(pod)
        for node in sorted(by_node):
            report = self._report(node)
            for pod in by_node[node] if report else ():
                made = report and documents.pod_document(pod, report, now)
                if made:
                    yield made

    def _report(self, node: str) -> UsageReport | None:
        kept = self._sources.store.get(node)
        if kept is None:
            return None
        now = self._clock()
        heard = now - (self._monotonic() - kept.heard)
        return report_of(kept, self._sources.strategy(node), heard, now)

    def _known_pods(self) -> PodIndex:
        self._require_complete()
        found = self._sources.pods()
        if found is None:
            raise _unavailable("this manager leads since a moment ago; it still reads the pods")
        return found

    def _require_complete(self) -> None:
        if not self._sources.complete():
            raise _unavailable(
                "this manager leads since a moment ago; nodes are still reporting to it"
            )


def _selects(options: ListOptions, name: str, labels: Mapping[str, str]) -> bool:
    return options.names.include(name) and LabelSelector(options.labels).matches(labels)


def _list_options(request: web.Request) -> ListOptions:
    """Options of a list; that objects without labels are selected by none is not so here."""
    options = parse(request.query)
    if options.watch:
        message = "watch is not supported: usage changes with each report"
        raise StatusError(405, "MethodNotAllowed", message)
    return replace(options, names=replace(options.names, none=False))


async def _list(
    request: web.Request, kind: Kind, found: Iterator[Document], options: ListOptions
) -> web.StreamResponse:
    shape = form(",".join(request.headers.getall("Accept", [])))
    response = await prepare(request)
    await write(response, documents.listed(kind, found, shape, full=options.whole_in_rows))
    return response


def _one(
    request: web.Request, kind: Kind, name: str, found: Iterator[Document]
) -> web.StreamResponse:
    shape = form(",".join(request.headers.getall("Accept", [])))
    made = next(found, None)
    if made is None:
        raise StatusError(404, "NotFound", f'{kind.plural}.{GROUP} "{name}" not found')
    body = documents.shown(made, shape, full=parse(request.query).whole_in_rows)
    return web.Response(body=body, content_type="application/json")


async def _discovery(_request: web.Request) -> web.StreamResponse:
    body = msgspec.json.encode(documents.resource_list())
    return web.Response(body=body, content_type="application/json")


async def _read_only(_request: web.Request) -> web.StreamResponse:
    raise StatusError(405, "MethodNotAllowed", "what nodes report is read-only")


def _unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message, retry_after=_RETRY_SECONDS)
