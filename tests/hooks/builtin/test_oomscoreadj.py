import json
from typing import Any

import pytest
from koord_hooks.builtin import oomscoreadj
from koord_model.keys import ANNOTATION_OOM_SCORE_ADJ, ANNOTATION_OOM_SCORE_ADJ_SPEC
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources

SPEC, POD = ANNOTATION_OOM_SCORE_ADJ_SPEC, ANNOTATION_OOM_SCORE_ADJ


def ask(name: str = "main", spec: Any = None, all_of_pod: str | None = None) -> Patch | None:
    annotations = {}
    if spec is not None:
        annotations[SPEC] = spec if isinstance(spec, str) else json.dumps(spec)
    if all_of_pod is not None:
        annotations[POD] = all_of_pod
    asked = Pod("db-0", "shop", "uid", annotations=annotations)
    return oomscoreadj.pre_create_container(Container(asked, name))


def score(patch: Patch | None) -> int | None:
    assert patch is not None
    return patch.resources.oom_score_adj


@pytest.mark.parametrize(
    ("name", "spec", "all_of_pod", "expected", "source"),
    [
        ("main", {"main": -500, "other": 3}, None, -500, SPEC),
        ("main", None, "200", 200, POD),
        ("other", {"main": -500}, "200", 200, POD),
        ("main", {"main": -500}, "200", -500, SPEC),
        *(("main", {"main": score}, None, score, SPEC) for score in (-1000, 0, 1000)),
        *(("main", None, str(score), score, POD) for score in (-1000, 0, 1000)),
        ("main", None, None, None, ""),
        ("main", "", "", None, ""),
        ("main", {"other": 3}, None, None, ""),
        ("main", {"main": None}, None, None, ""),
        ("other", {"main": 1001}, None, None, ""),
        ("", {"": 3}, "200", None, ""),
    ],
)
def test_a_container_has_its_own_score_or_that_of_its_pod(
    name: str, spec: Any, all_of_pod: str | None, expected: int | None, source: str
) -> None:
    resources, why = LinuxResources(oom_score_adj=expected), f"{source} → oom_score_adj {expected}"
    patch = None if expected is None else Patch(resources=resources, why=why)
    assert ask(name, spec, all_of_pod) == patch


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"main": 1001}, "main is 1001; expected -1000 to 1000"),
        ({"main": "5"}, 'main is "5"; expected -1000 to 1000'),
        ({"main": True}, "main is true; expected -1000 to 1000"),
        ("{", "truncated"),
        ("[]", "got `array`"),
    ],
)
def test_a_score_that_cannot_be_leaves_that_of_the_pod(spec: Any, line: str) -> None:
    patch = ask(spec=spec, all_of_pod="200")
    assert score(patch) == 200
    assert patch is not None
    [reported] = patch.ignored
    assert reported.startswith(f"pod shop/db-0: annotation {SPEC}: ")
    assert line in reported


@pytest.mark.parametrize("text", ["1001", "-1001", "high", "1.5", " 5", "٣", "9" * 5000])
def test_a_score_of_the_pod_that_cannot_be_is_one_line(text: str) -> None:
    patch = ask(all_of_pod=text)
    assert patch is not None
    assert score(patch) is None
    [reported] = patch.ignored
    assert reported.startswith(f"pod shop/db-0: annotation {POD} is ")
    assert reported.endswith("expected -1000 to 1000 (left out)")
