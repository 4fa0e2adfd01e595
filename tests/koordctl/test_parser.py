"""Names that were mistyped, and completion by shells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.koordctl.conftest import Failing, Run


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("stauts", "; did you mean status? "),
        ("why pdo shop/web", "; did you mean pod? "),
        ("doctor nod", "; did you mean node? "),
        ("status --adress=x", "; did you mean --address"),
        ("completion bahs", "; did you mean bash? "),
        ("status --xyz", "unrecognized arguments: --xyz (see "),
    ],
)
def test_names_that_may_be_meant(failing: Failing, words: str, hint: str) -> None:
    code, line = failing(*words.split())
    assert code == 2
    assert hint in line


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("koordctl why pe", ["pending"]),
        ("koordctl why po", ["pod"]),
        ("koordctl status --clu", ["--cluster"]),
    ],
)
def test_bash_completes_commands_and_flags(
    run: Run, tmp_path: Path, typed: str, completed: list[str]
) -> None:
    script = tmp_path / "koordctl"
    script.write_text(run("completion", "bash"))
    words = typed.split()
    call = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
        "_shtab_koordctl; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", call], capture_output=True, text=True, check=True)
    assert done.stdout.split() == completed
