"""Group custom.metrics.k8s.io: metrics of pods and nodes by Katalyst's names, for autoscalers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from aiohttp import web
from koord_model.excerpt import excerpt
from koord_serving.aggregated.core.list_options import StatusError, form
from koord_serving.aggregated.json_stream import prepare, write

from koord_manager.metrics_apis.core.catalogue import (
    NODE_METRICS,
    POD_METRICS,
    PodSamples,
    node_series,
)
from koord_manager.metrics_apis.core.metric_values import (
    CUSTOM_GROUP,
    CUSTOM_KIND,
    CUSTOM_VERSIONS,
    DescribedObject,
    custom_values,
    resource_list,
    value_list,
)
from koord_manager.metrics_apis.core.pods import MetricPod
from koord_manager.metrics_apis.core.questions import ALL, Question, read_question
from koord_manager.metrics_apis.requests import add_read_only, constant, list_options, selects
from koord_manager.metrics_apis.sources import UsageSources

_DISCOVERED = [
    *((f"nodes/{name}", False) for name in sorted(NODE_METRICS)),
    *((f"pods/{name}", True) for name in sorted(POD_METRICS)),
]


class CustomMetricsGroup:
    """Answers from the samples that nodes reported in the last minutes.

    A metric of one object has its newest value alone, of selected ones all values, as Katalyst's
    server has it; an aggregate is one value in both cases.
    """

    name = CUSTOM_GROUP
    versions: Sequence[str] = CUSTOM_VERSIONS

    def __init__(self, sources: UsageSources) -> None:
        self._sources = sources

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add what is below /apis/custom.metrics.k8s.io, in each version."""
        for version in CUSTOM_VERSIONS:
            base = f"/apis/{CUSTOM_GROUP}/{version}"
            discovery = resource_list(CUSTOM_GROUP, version, CUSTOM_KIND, _DISCOVERED)
            router.add_get(base, constant(discovery))
            for path, handler in (
                ("nodes/{name}/{metric}", self._nodes),
                ("namespaces/{namespace}/pods/{name}/{metric}", self._pods),
                ("{other:.+}", _neither),
            ):
                add_read_only(router, f"{base}/{path}", partial(handler, version))

    async def _nodes(self, version: str, request: web.Request) -> web.StreamResponse:
        question = _question(request, "nodes", NODE_METRICS)
        self._sources.require_complete()
        name = request.match_info["name"]
        names: Iterable[str] = [name]
        if name == ALL:
            options, labels = list_options(request.query), self._sources.labels
            kept = (stored.name for stored in self._sources.store.page().objects)
            names = (name for name in kept if selects(options, name, labels(name)))
        return await _send(request, version, self._node_values(version, names, question, name))

    async def _pods(self, version: str, request: web.Request) -> web.StreamResponse:
        question = _question(request, "pods", [*POD_METRICS])
        pods, name = self._sources.known_pods(), request.match_info["name"]
        namespace = request.match_info["namespace"]
        if name == ALL:
            options = list_options(request.query)
            there = pods.of(namespace)
            found = [pod for pod in there if selects(options, pod.name, pod.labels)]
        else:
            pod = pods.get(namespace, name)
            found = [pod] if pod else []
        return await _send(request, version, self._pod_values(version, found, question, name))

    def _node_values(
        self, version: str, names: Iterable[str], question: Question, asked: str
    ) -> Iterator[bytes]:
        for name in names:
            samples = self._sources.samples(name)
            capacity, described = self._sources.capacity(name), DescribedObject("Node", name)
            for metric in question.names if samples else ():
                series = question.answer(
                    node_series(metric, samples, capacity), newest=asked != ALL
                )
                shown = metric + question.suffix
                yield from custom_values(version, described, shown, series, question.selector)

    def _pod_values(
        self, version: str, pods: Iterable[MetricPod], question: Question, asked: str
    ) -> Iterator[bytes]:
        for node, there in _by_node(pods):
            samples = PodSamples(self._sources.samples(node))
            for pod in there:
                described = DescribedObject("Pod", pod.name, pod.namespace)
                for metric in question.names:
                    series = question.answer(samples.series(metric, pod), newest=asked != ALL)
                    shown = metric + question.suffix
                    yield from custom_values(version, described, shown, series, question.selector)


def _by_node(pods: Iterable[MetricPod]) -> Iterator[tuple[str, list[MetricPod]]]:
    """Group pods by node, so that the samples of each are read once."""
    found: dict[str, list[MetricPod]] = {}
    for pod in pods:
        found.setdefault(pod.node, []).append(pod)
    yield from sorted(found.items())


def _question(request: web.Request, plural: str, known: Sequence[str]) -> Question:
    query: Mapping[str, str] = request.query
    form(",".join(request.headers.getall("Accept", [])))  # refuses what is not JSON
    selector = query.get("metricLabelSelector", "")
    return read_question(plural, known, request.match_info["metric"], selector)


async def _send(request: web.Request, version: str, values: Iterator[bytes]) -> web.StreamResponse:
    name, metric = request.match_info["name"], request.match_info["metric"]
    if name != ALL:
        values = iter(list(values))
        first = next(values, None)
        if first is None:
            about = f"{excerpt(name)} has no {metric} at present: it is not reported, or too old"
            raise StatusError(404, "NotFound", about)
        values = iter([first, *values])
    response = await prepare(request)
    await write(response, value_list(CUSTOM_GROUP, version, CUSTOM_KIND, values))
    return response


async def _neither(_version: str, request: web.Request) -> web.StreamResponse:
    raise StatusError(
        404,
        "NotFound",
        f"{excerpt(request.match_info['other'])} has no metrics; there are "
        "nodes/NAME/METRIC and namespaces/NAMESPACE/pods/NAME/METRIC",
    )
