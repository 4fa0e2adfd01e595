"""Helm, which ``tools/helm`` puts beside the interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.deploy_files import CHART

_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
_HELM = shutil.which("helm", path=_PATH)
needs_helm = pytest.mark.skipif(_HELM is None, reason="needs Helm: tools/helm .venv/bin/helm")


def helm(*words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Helm, which has ended; ``values`` are what it reads for ``-f -``."""
    return subprocess.run(
        [_HELM or "", *words],
        input=json.dumps(values or {}),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def rendered(values: Mapping[str, Any]) -> str:
    """The objects that the chart has with values."""
    done = helm("template", "pykoord", str(CHART), "-f", "-", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def notes(values: Mapping[str, Any]) -> str:
    """Helm's notes after an installation."""
    words = ("install", "pykoord", str(CHART), "--dry-run=client", "-o", "json", "-f", "-")
    done = helm(*words, values=values)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["info"]["notes"])
