"""Gathering of a gang's pods in the network, by its annotation. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.keys import ANNOTATION_GANG_NETWORK_TOPOLOGY


class GatherStrategy(StrEnum):
    """Strictness of gathering all pods in one domain of a layer."""

    MUST_GATHER = "MustGather"
    PREFER_GATHER = "PreferGather"


class GatherRule(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Rule for one layer; the pods in each domain are to be a multiple of some number."""

    layer: str = ""
    strategy: str = ""
    pod_count_multiple: int = 0


class GatherSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The rules of a gang, in any order."""

    gather_strategy: list[GatherRule] = []


class GatherNeeds(NamedTuple):
    """A gang's demands on a tree.

    ``must`` is the number of the layer of which all pods have to be in one domain, ``multiples``
    are those of all layers, 1 where any number of pods will do. ``unknown`` names the layer that
    has to gather pods, and that does not exist.
    """

    must: int
    multiples: tuple[int, ...]
    unknown: str = ""


_DECODER = msgspec.json.Decoder(GatherSpec)


def read_gather_spec(text: str) -> GatherSpec:
    """The rules in the annotation.

    Raises:
        ValueError: it is not valid.
    """
    return decode_view(_DECODER, text.encode(), f"a valid {ANNOTATION_GANG_NETWORK_TOPOLOGY}")


def gather_needs(spec: GatherSpec, layers: Sequence[str]) -> GatherNeeds:
    """Apply rules to these layers, from the cluster down; the lowest MustGather counts.

    Where pods need not be gathered they are nevertheless, as far down as they fit: PreferGather
    says nothing new.
    """
    gathering, unknown, multiples = list[int](), "", [1] * len(layers)
    for rule in spec.gather_strategy:
        is_must = rule.strategy == GatherStrategy.MUST_GATHER
        if rule.layer in layers:
            number = layers.index(rule.layer)
            gathering += [number] if is_must else []
            if rule.pod_count_multiple > 1:
                multiples[number] = rule.pod_count_multiple
        elif is_must:
            unknown = rule.layer
    must = max(gathering, default=0)
    return GatherNeeds(must, tuple(multiples), "" if gathering else unknown)
