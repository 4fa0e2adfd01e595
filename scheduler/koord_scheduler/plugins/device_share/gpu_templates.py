"""Templates for parts of cards of a model, where it cannot be any part. No IO.

A Huawei NPU is divided by templates of its driver. A ConfigMap of Koordinator's form lists them by
vendor and model (``huawei-Ascend-310P3``) and name (``vir02``); a part that a pod requests has to
be just what one of them has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.device_allocated import ResourceAmounts
from koord_model.fields import Fields, milli_quantity
from koord_model.keys import NPU_CORE
from koord_model.yaml_documents import yaml_document

from koord_scheduler.plugins.device_share.device_needs import DeviceNeed

_DATA = "data.yaml"
_LEFT_OUT = "the template is left out"


class TemplatesSource(NamedTuple):
    """The ConfigMap with the templates, and the resources that are given by template alone."""

    namespace: str = "koordinator-system"
    name: str = "gpu-shared-resource-templates"
    resources: frozenset[str] = frozenset({NPU_CORE})

    @property
    def key(self) -> str:
        """The key of the ConfigMap."""
        return f"{self.namespace}/{self.name}"


DEFAULT_SOURCE = TemplatesSource()


class ModelTemplates(NamedTuple):
    """The ``templates`` of one model, by what they have; ``resources`` are given by them alone."""

    resources: frozenset[str] = DEFAULT_SOURCE.resources
    templates: tuple[tuple[ResourceAmounts, str], ...] = ()

    def apply_to(self, need: DeviceNeed) -> bool:
        """True if a pod needs a part of a card that only a template gives."""
        return need.is_shared and not self.resources.isdisjoint(need.amounts)

    def name_for(self, need: DeviceNeed) -> str:
        """The first template that is what a pod needs of each card; "" if none is."""
        return next((name for each, name in self.templates if each == need.each), "")


NO_TEMPLATES = ModelTemplates()


@dataclass(frozen=True)
class GPUTemplates:
    """All templates by vendor and model, and lines on what of the ConfigMap was ``ignored``."""

    by_model: Mapping[str, Mapping[str, ResourceAmounts]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def of_models(self, resources: frozenset[str]) -> Mapping[str, ModelTemplates]:
        """Return the templates of nodes by their model."""
        return {
            model: ModelTemplates(
                resources, tuple((each, name) for name, each in sorted(templates.items()))
            )
            for model, templates in self.by_model.items()
        }


class TemplatesData(msgspec.Struct, frozen=True):
    """Data that are read."""

    text: str = msgspec.field(default="", name=_DATA)


class TemplatesObject(msgspec.Struct, frozen=True):
    """The ConfigMap, as far as it is read."""

    data: TemplatesData | None = None


_DECODER = msgspec.json.Decoder(TemplatesObject)


def read_gpu_templates(text: bytes) -> GPUTemplates:
    """The templates in a ConfigMap; a bad one costs only itself.

    Raises:
        ValueError: it is not a ConfigMap, or its ``data.yaml`` is not YAML.
    """
    data = decode_view(_DECODER, text, "a valid ConfigMap").data or TemplatesData()
    try:
        # By way of JSON: in YAML, what is not text may be the name of something else.
        document = msgspec.json.decode(msgspec.json.encode(yaml_document(data.text)))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"has a {_DATA} that is not YAML: {error}") from None
    ignored: list[str] = []
    models = Fields(document, f"GPU templates, {_DATA}", ignored)
    by_model = {str(model): dict(_templates(models.of(model))) for model, _ in models.entries()}
    return GPUTemplates(by_model, tuple(ignored))


def _templates(model: Fields) -> Iterator[tuple[str, ResourceAmounts]]:
    for name, _ in model.entries():
        template = model.of(name)
        names = sorted(resource for resource, _ in template.entries())
        amounts = [
            (one, template.take(one, None, _amount, "a whole quantity", _LEFT_OUT)) for one in names
        ]
        if amounts and all(amount is not None for _, amount in amounts):
            yield name, tuple((one, amount or 0) for one, amount in amounts)


def _amount(given: object) -> int:
    """Requests of pods are whole: no other amount equals one."""
    amount, rest = divmod(milli_quantity(given), 1000)
    if rest or amount < 0:
        raise ValueError(given)
    return amount
