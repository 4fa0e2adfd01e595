"""Placement policies to compare with: BestFit and DotProduct, as in FGD's simulator."""

from __future__ import annotations

import numpy as np
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest, fits
from koord_scheduler.plugins.device_share.gpu_scores import FIRST_CARDS, GpuPlaces
from koord_scheduler.state.arrays import Amounts

_MOST_CPU, _MOST_GPUS = 128_000.0, 8_000.0
"""Thousandths; what both are normalized by there."""


def best_fit(request: GpuRequest, nodes: GpuNodes) -> GpuPlaces:
    """The node with the least CPU and GPUs left, both of the largest node's; the fullest card."""
    cpu = (nodes.cpu - request.cpu) / _MOST_CPU
    gpus = (nodes.cards.sum(axis=1) - request.cards * request.share) / _MOST_GPUS
    score = np.trunc((1 - (cpu * 0.5 + gpus * 0.5)) * 100)
    return _places(request, nodes, score, np.where(_room(request, nodes), nodes.cards, np.inf))


def dot_product(request: GpuRequest, nodes: GpuNodes) -> GpuPlaces:
    """The node whose free CPU and GPUs, times what the pod requests, are least.

    A part of a card meets the cards in use one by one; everything meets the whole cards together.
    """
    whole = (nodes.cards >= WHOLE).sum(axis=1) * float(WHOLE)
    asked = request.cards * request.share
    together = np.where(whole >= asked, _dot(request, nodes.cpu, whole), np.inf)[:, None]
    in_use = nodes.cards < WHOLE
    if asked < WHOLE:
        each = np.where(in_use, _dot(request, nodes.cpu, nodes.cards), together)
        choice = np.where(_room(request, nodes), each, np.inf)
    else:
        choice = together
    score = np.trunc((1 - choice.min(axis=1) / 2) * 100)
    return _places(request, nodes, score, choice)


def _dot(request: GpuRequest, cpu: Amounts, gpus: Amounts) -> Amounts:
    by_cpu = cpu / _MOST_CPU * (request.cpu / _MOST_CPU)
    by_gpus = gpus / _MOST_GPUS * (request.cards * request.share / _MOST_GPUS)
    found: Amounts = (by_cpu if gpus.ndim == 1 else by_cpu[:, None]) + by_gpus
    return found


def _room(request: GpuRequest, nodes: GpuNodes) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    found = nodes.cards >= request.share
    return found & (nodes.cards > 0) if request.cards else np.ones_like(found)


def _places(request: GpuRequest, nodes: GpuNodes, score: Amounts, choice: Amounts) -> GpuPlaces:
    """``choice`` is least for the best card."""
    card = choice.argmin(axis=1) if request.is_shared else np.full(len(score), FIRST_CARDS)
    return GpuPlaces(np.where(fits(request, nodes), score, -np.inf), card)
