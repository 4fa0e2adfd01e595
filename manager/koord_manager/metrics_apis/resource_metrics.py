"""Group metrics.k8s.io, by which `kubectl top` and HorizontalPodAutoscalers read usage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aiohttp import web
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
from koord_manager.metrics_apis.core.pods import MetricPod
from koord_manager.metrics_apis.requests import add_read_only, constant, list_options, selects
from koord_manager.metrics_apis.sources import UsageSources

_BASE = f"/apis/{API_VERSION}"
_IN_NAMESPACE = f"{_BASE}/namespaces/{{namespace}}/{PODS.plural}"


class ResourceMetricsGroup:
    """Usage is decoded of the NodeMetrics when it is asked for; nothing of it is kept.

    ``limit`` is not followed: a list comes whole, which the API leaves to servers.
    """

    name = GROUP
    versions: Sequence[str] = (VERSION,)

    def __init__(self, sources: UsageSources) -> None:
        self._sources = sources

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add what is below /apis/metrics.k8s.io/v1beta1."""
        router.add_get(_BASE, constant(documents.resource_list()))
        for path, handler in (
            (f"{_BASE}/{NODES.plural}", self._nodes),
            (f"{_BASE}/{NODES.plural}/{{name}}", self._node),
            (f"{_BASE}/{PODS.plural}", self._pods),
            (_IN_NAMESPACE, self._pods),
            (f"{_IN_NAMESPACE}/{{name}}", self._pod),
        ):
            add_read_only(router, path, handler)

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        self._sources.require_complete()
        options = list_options(request.query)
        labels = self._sources.labels
        kept = (stored.name for stored in self._sources.store.page().objects)
        chosen = (name for name in kept if selects(options, name, labels(name)))
        return await _list(request, NODES, self._node_documents(chosen), options)

    async def _node(self, request: web.Request) -> web.StreamResponse:
        self._sources.require_complete()
        name = request.match_info["name"]
        return _one(request, NODES, name, self._node_documents([name]))

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        pods, options = self._sources.known_pods(), list_options(request.query)
        chosen = (
            pod
            for pod in pods.of(request.match_info.get("namespace", ""))
            if selects(options, pod.name, pod.labels)
        )
        return await _list(request, PODS, self._pod_documents(chosen), options)

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = self._sources.known_pods().get(namespace, name)
        return _one(request, PODS, name, self._pod_documents([found] if found else []))

    def _node_documents(self, names: Iterable[str]) -> Iterator[Document]:
        now = self._sources.clock()
        for name in names:
            report = self._sources.report(name)
            made = report and documents.node_document(name, self._sources.labels(name), report, now)
            if made:
                yield made

    def _pod_documents(self, pods: Iterable[MetricPod]) -> Iterator[Document]:
        """By node, so that each report is decoded once."""
        now = self._sources.clock()
        by_node: dict[str, list[MetricPod]] = {}
        for pod in pods:
            by_node.setdefault(pod.node, []).append(pod)
        for node in sorted(by_node):
            report = self._sources.report(node)
            for pod in by_node[node] if report else ():
                made = report and documents.pod_document(pod, report, now)
                if made:
                    yield made


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
