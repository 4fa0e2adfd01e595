"""The release before this one, whose programs run beside ours out of their own files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from koord_model.version import VERSION

ROOT = Path(__file__).parents[2]
STAND_IN = "ef7227e45cbd"
"""Commit of 2026-11-26, which stands for it until there is a release."""
_MODULES = {
    "koord-runtime-proxy": "koord_proxy",
    "koordlet": "koordlet",
    "koordctl": "koordctl",
    "koord-manager": "koord_manager",
}


def reference() -> str | None:
    """The newest tag of another version than this one's, or the stand-in; None where neither is."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    for name in (*(tag for tag in tags if tag != f"v{VERSION}"), STAND_IN):
        if _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return name
    return None


class ReleaseBefore:
    """Its files are unpacked into ``folder``; libraries are those of this environment."""

    def __init__(self, folder: Path) -> None:
        name = reference()
        assert name is not None
        archive = folder / "before.tar"
        _git("archive", f"--output={archive}", name)
        self._files = folder / "before"
        with tarfile.open(archive) as tar:
            tar.extractall(self._files, filter="data")

    @cached_property
    def environment(self) -> list[str]:
        """Words before a command, so that Python finds this release's packages first."""
        packages = {str(path.parent.parent) for path in self._files.glob("*/*/py.typed")}
        return ["env", f"PYTHONPATH={os.pathsep.join(sorted(packages))}"]

    def script(self, name: str) -> Path:
        """A file that runs one of its programs, of koordlet without flags that this has not yet."""
        path = self._files / "bin" / name
        if not path.exists():
            program = [*self.environment, sys.executable, "-m", _MODULES[name]]
            known = "--.*"
            if name == "koordlet":
                known = "|".join(
                    sorted(set(re.findall(r"--[a-z][a-z-]+", _run([*program, "--help"]))))
                )
            lines = (
                "#!/bin/bash",
                'for w; do [[ $w != --* || ${w%%=*} =~ ^(KNOWN)$ ]] && kept+=("$w"); done',
                f'exec {" ".join(program)} "${{kept[@]}}"',
            )
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines).replace("KNOWN", known))
            path.chmod(0o755)
        return path

    def run(self, code: str) -> str:
        """Output of a Python program that uses its packages."""
        return _run([*self.environment, sys.executable, "-c", code])


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
