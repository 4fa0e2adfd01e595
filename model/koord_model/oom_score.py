"""Order in which containers are killed when memory runs out, from their pods' annotations.

``koordinator.sh/oom-score-adj-spec`` has a score by container name, which goes before
the score for all containers in ``koordinator.sh/oom-score-adj``.
"""

from __future__ import annotations

import re

import msgspec

from koord_model.annotations import about, decode, read
from koord_model.excerpt import excerpt
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_OOM_SCORE_ADJ, ANNOTATION_OOM_SCORE_ADJ_SPEC
from koord_model.pod import Container, Pod

LEAST, MOST = -1000, 1000

_OBJECT: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])
_NUMBER = re.compile(r"[+-]?[0-9]{1,6}")


def oom_score_adj(container: Container) -> tuple[int | None, str, tuple[str, ...]]:
    """The score and the annotation it is from; ``None`` without. Lines on what was ignored."""
    ignored: list[str] = []
    if (own := _of_container(container, ignored)) is not None:
        return own, ANNOTATION_OOM_SCORE_ADJ_SPEC, tuple(ignored)
    return _of_pod(container.pod, ignored), ANNOTATION_OOM_SCORE_ADJ, tuple(ignored)


def _of_container(container: Container, ignored: list[str]) -> int | None:
    pod, key = container.pod, ANNOTATION_OOM_SCORE_ADJ_SPEC
    if not pod.annotations.get(key):
        return None
    try:
        given = read(pod, key, lambda text: decode(_OBJECT, text))
    except ValueError as error:
        ignored.append(str(error))
        return None
    fields = Fields(given, f"{about(pod, key)}:", ignored)
    before = len(ignored)
    score = fields.number(container.name, 0, LEAST, MOST)
    return score if fields.has(container.name) and len(ignored) == before else None


def _of_pod(pod: Pod, ignored: list[str]) -> int | None:
    text = pod.annotations.get(ANNOTATION_OOM_SCORE_ADJ, "")
    if not text:
        return None
    if _NUMBER.fullmatch(text) and LEAST <= int(text) <= MOST:
        return int(text)
    begin = about(pod, ANNOTATION_OOM_SCORE_ADJ)
    ignored.append(f"{begin} is {excerpt(text)}; expected {LEAST} to {MOST} (left out)")
    return None
