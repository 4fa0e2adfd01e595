"""The README's steps can be read by a program, which then types them on the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm import readme


def test_steps_of_a_text() -> None:
    text = """\
## On a real node

1. Install: `a b &&
   c` into `/opt`.
2. Start: `start it`; `look at it` says how it is.

Roll-back: `not this`.

## Next

1. `nor this`
"""
    assert readme.steps(text) == {1: ["a b && c"], 2: ["start it", "look at it"]}


def test_steps_of_the_readme() -> None:
    steps = readme.steps(readme.README.read_text())
    assert [step for step in (1, 2, 3) if not steps.get(step)] == []
    build, install = steps[1]
    assert build == "make deb"
    assert install.startswith("apt-get install ./dist/")


def test_first_step_for_docker() -> None:
    install, reload = readme.steps(readme.DOCKER.read_text(), "Install")[1]
    assert install.startswith("install -D -m 644 /usr/share/pykoord/docker.conf ")
    assert reload == "systemctl daemon-reload"


@pytest.mark.parametrize(("page", "word"), readme.DROP_INS)
def test_drop_ins_of_the_docs(page: Path, word: str) -> None:
    lines = readme.drop_in(page.read_text(), word).splitlines()
    assert lines[0] == "[Service]"
