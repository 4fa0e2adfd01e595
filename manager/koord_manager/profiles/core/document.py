"""A ClusterColocationProfile, decoded. No IO.

The fields that select pods must all be valid: a profile with a bad selector or
probability matches nothing. Any other bad field costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from koord_model import label_selector
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, text
from koord_model.json_objects import Object, inside
from koord_model.keys import ANNOTATION_SKIP_UPDATE_RESOURCES, LABEL_CONTROLLER_MANAGED
from koord_model.label_selector import LabelSelector
from koord_model.qos import QoSClass

Texts = Mapping[str, str]

_OUT = "the profile is for nothing until this is mended"
_EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class ColocationProfile:
    """A profile.

    ``usable`` is false if it is not known which pods it is for; it then matches nothing.
    ``selects`` is whether it has a selector at all. ``percent`` is how many of those it is
    for get it. ``ignored`` has a line for each thing that could not be used.
    """

    name: str
    uid: str = ""
    version: str = ""
    created: str = ""
    terminating: bool = False
    managed: bool = False
    skips_resources: bool = False
    usable: bool = True
    selects: bool = False
    namespaces: LabelSelector = _EVERYTHING
    selector: LabelSelector = _EVERYTHING
    percent: int = 100
    labels: Texts = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)
    label_keys: Texts = field(default_factory=dict)
    annotation_keys: Texts = field(default_factory=dict)
    label_suffixes: Texts = field(default_factory=dict)
    scheduler_name: str = ""
    qos: QoSClass = QoSClass.NONE
    priority_class_name: str = ""
    koordinator_priority: int | None = None
    patch: Object | None = None
    ignored: tuple[str, ...] = ()


def read(name: str, document: Object) -> ColocationProfile:
    """The profile of that name in a document."""
    where = f"ClusterColocationProfile {excerpt(name)}"
    ignored: list[str] = []
    out: list[str] = []
    fields = Fields(document.get("spec"), where, ignored, "spec")
    deciding = Fields(document.get("spec"), where, out, "spec")
    metadata = inside(document, "metadata")
    return ColocationProfile(
        name=name,
        uid=str(metadata.get("uid") or ""),
        version=str(metadata.get("resourceVersion") or ""),
        created=str(metadata.get("creationTimestamp") or ""),
        terminating=bool(metadata.get("deletionTimestamp")),
        managed=inside(metadata, "labels").get(LABEL_CONTROLLER_MANAGED) == "true",
        skips_resources=ANNOTATION_SKIP_UPDATE_RESOURCES in inside(metadata, "annotations"),
        selects=fields.has("selector"),
        namespaces=_selector(deciding, "namespaceSelector", where),
        selector=_selector(deciding, "selector", where),
        percent=deciding.take("probability", 100, _of_hundred, "0% to 100%", _OUT),
        labels=_texts(fields, "labels"),
        annotations=_texts(fields, "annotations"),
        label_keys=_texts(fields, "labelKeysMapping"),
        annotation_keys=_texts(fields, "annotationKeysMapping"),
        label_suffixes=_texts(fields, "labelSuffixes"),
        scheduler_name=fields.text("schedulerName"),
        qos=fields.word("qosClass", QoSClass.NONE),
        priority_class_name=fields.text("priorityClassName"),
        koordinator_priority=fields.number("koordinatorPriority", None, -(1 << 31), (1 << 31) - 1),
        patch=deciding.take("patch", None, _object, "an object", _OUT),
        usable=not out,
        ignored=tuple(out or ignored),
    )


def _selector(fields: Fields, name: str, where: str) -> LabelSelector:
    """A selector; one that is not there, or empty, is for everything."""
    given = dict(fields.entries()).get(name)
    if given is None:
        return _EVERYTHING
    try:
        return label_selector.parse(given, f"{where} spec.{name}")
    except ValueError as error:
        fields.ignored.append(f"{error} ({_OUT})")
        return _EVERYTHING


def _of_hundred(given: object) -> int:
    if isinstance(given, str) and given.endswith("%") and given[:-1].isascii():
        given = int(given[:-1]) if given[:-1].isdecimal() and len(given) <= len("100%") else None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 100:
        raise ValueError(given)
    return given


def _object(given: object) -> Object:
    if not isinstance(given, dict):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return given


def _texts(fields: Fields, name: str) -> Texts:
    """The pairs of text in a field."""
    pairs = fields.of(name)
    taken: dict[str, Any] = {
        key: pairs.take(key, None, text, "text", "left out") for key, _ in pairs.entries()
    }
    return {key: value for key, value in taken.items() if value is not None}
