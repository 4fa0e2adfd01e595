import json
from typing import Any

import pytest
from koord_hooks.builtin import oomscoreadj
from koord_hooks.runner import load
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


def test_a_container_has_its_own_score() -> None:
    assert ask(spec={"main": -500, "other": 3}) == Patch(
        resources=LinuxResources(oom_score_adj=-500), why=f"{SPEC} → oom_score_adj -500"
    )


def test_or_that_of_its_pod() -> None:
    assert ask(all_of_pod="200") == Patch(
        resources=LinuxResources(oom_score_adj=200), why=f"{POD} → oom_score_adj 200"
    )
    assert score(ask("other", {"main": -500}, "200")) == 200
    assert score(ask("main", {"main": -500}, "200")) == -500


@pytest.mark.parametrize("asked", [-1000, 0, 1000])
def test_the_whole_range(asked: int) -> None:
    assert score(ask(spec={"main": asked})) == asked
    assert score(ask(all_of_pod=str(asked))) == asked


def test_nothing_is_asked_for() -> None:
    assert ask() is None
    assert ask(spec="", all_of_pod="") is None
    assert ask(spec={"other": 3}) is None
    assert ask(spec={"main": None}) is None


def test_the_sandbox_keeps_its_runtimes() -> None:
    assert ask("", {"": 3}, "200") is None


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
    [told] = patch.ignored
    assert told.startswith(f"pod shop/db-0: annotation {SPEC}: ")
    assert line in told


@pytest.mark.parametrize("text", ["1001", "-1001", "high", "1.5", " 5", "٣", "9" * 5000])
def test_a_score_of_the_pod_that_cannot_be_is_one_line(text: str) -> None:
    patch = ask(all_of_pod=text)
    assert patch is not None
    assert score(patch) is None
    [told] = patch.ignored
    assert told.startswith(f"pod shop/db-0: annotation {POD} is ")
    assert told.endswith("expected -1000 to 1000 (left out)")


def test_only_the_container_that_it_is_about_is_told() -> None:
    assert ask("other", {"main": 1001}) is None


def test_it_is_found_by_its_file_name() -> None:
    assert [stage.value for stage in load(["oomscoreadj"]).stages()] == ["PreCreateContainer"]
