"""``koordctl predict show``: koordlet's predictions, and the models behind them."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

from koordctl.amounts import UNKNOWN, cores, memory
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import PodModel, PredictionsDocument, PredictorRow
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, count
from koordctl.top import document_of, pod_count

_NAMES = ("p60", "p90", "p95", "p98", "max")
_TITLES = tuple(name.upper() for name in _NAMES)
_PREDICTOR_HEADER = ("PREDICTOR", "PEAK CPU", "MEMORY", "RECLAIMABLE CPU", "MEMORY")
_MODEL_HEADER = ("NODE", "CPU P60", *_TITLES[1:], "MEMORY P60", *_TITLES[1:])
_POD_HEADER = ("POD", "CLASS", "REQUEST", *_TITLES, "COUNTED WITH")
_WITH_REQUEST = "its request"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl predict show``."""
    parser.add_argument(
        "-n", dest="count", type=pod_count, metavar="COUNT", help="show at most COUNT pods"
    )


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Run ``koordctl predict show``.

    Raises:
        AskError: koordlet does not answer, or not this.
    """
    body, found = ask_koordlet(arguments.address, "/v1/predictions", PredictionsDocument)
    pods = by_cpu(found.pods)[: arguments.count]
    document = document_of(body, PredictionsDocument, (pod.uid for pod in pods))
    return CommandOutput(document, [*head_lines(found), *pod_lines(pods)])


def by_cpu(pods: Iterable[PodModel]) -> list[PodModel]:
    """The pods by the P95 of their CPU, the greatest first; those without a model last."""
    return sorted(pods, key=lambda pod: (-pod.cpu.get("p95", -1.0), pod.namespace, pod.name))


def head_lines(found: PredictionsDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """Describe the prediction, and the node's models."""
    when = datetime.datetime.fromtimestamp(found.at, datetime.UTC).astimezone(zone)
    yield f"{clean(found.node) or 'this node'}  {when:%H:%M:%S}  {_training(found)}"
    if found.predictors:
        yield ""
        said = [_said(name, predictor) for name, predictor in found.predictors.items()]
        yield table([_PREDICTOR_HEADER, *said], words=(0,))
    if found.models:
        yield ""
        rows = [
            (clean(model.item), *_cpu(model.cpu), *_memory(model.memory)) for model in found.models
        ]
        yield table([_MODEL_HEADER, *rows], words=(0,))
    cold = sum(pod.cold for pod in found.pods)
    if cold:
        yield ""
        yield (
            f"{count(cold, 'pod')} of {len(found.pods)} too young for a prediction or without a "
            "model: counted with the request."
        )


def pod_lines(pods: Sequence[PodModel]) -> Iterator[Block]:
    """The pods' CPU, then their memory."""
    yield ""
    if not pods:
        yield "No pods to show."
        return
    yield "CPU, cores"
    yield from _table(pods, [(cores(pod.cpu_request), *_cpu(pod.cpu)) for pod in pods])
    yield ""
    yield "Memory"
    yield from _table(pods, [(memory(pod.memory_request), *_memory(pod.memory)) for pod in pods])


def _table(pods: Sequence[PodModel], amounts: Sequence[tuple[str, ...]]) -> Iterator[Block]:
    rows = [
        (
            f"{clean(pod.namespace)}/{clean(pod.name)}",
            clean(pod.qos),
            *cells,
            _WITH_REQUEST if pod.cold else "",
        )
        for pod, cells in zip(pods, amounts, strict=True)
    ]
    yield table([_POD_HEADER, *rows], words=(0, 1, len(_POD_HEADER) - 1))


def _training(found: PredictionsDocument) -> str:
    if found.trained_at is None:
        return "no training since koordlet started"
    return f"trained {max(found.at - found.trained_at, 0):.0f} s ago"


def _said(name: str, predictor: PredictorRow) -> tuple[str, ...]:
    spare = predictor.reclaimable
    rest = (UNKNOWN, UNKNOWN) if spare is None else (cores(spare.cpu), memory(spare.memory))
    return (clean(name), cores(predictor.peak.cpu), memory(predictor.peak.memory), *rest)


def _cpu(model: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(cores(model.get(name)) for name in _NAMES)


def _memory(model: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(memory(model.get(name)) for name in _NAMES)
