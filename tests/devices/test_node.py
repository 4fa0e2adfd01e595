"""Commands with deadlines: real processes that hang, fail, and print too much."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from koord_devices.contract import ToolError
from koord_devices.node import LocalNode

from tests.support.recorded_tools import NoGPUs
from tests.support.text_tree import TextTree


def node(directory: Path, seconds: float = 10.0) -> LocalNode:
    path = f"{directory}:/usr/bin:/bin"
    return LocalNode(TextTree(), NoGPUs(), command_seconds=seconds, path=path)


def tool(directory: Path, script: str) -> None:
    file = directory / "npu-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_stdout_alone_is_the_answer(tmp_path: Path) -> None:
    tool(tmp_path, 'echo "$1 $2"; echo warning >&2; echo "$LC_ALL"')
    assert node(tmp_path).run("npu-smi", "info", "-m") == "info -m\nC\n"


@pytest.mark.parametrize(
    ("script", "reason", "line"),
    [
        ("echo broken driver >&2; exit 3", "ToolFailed", "ended with 3: broken driver"),
        ("kill -9 $$", "ToolFailed", "ended with -9"),
        ("yes", "ToolFailed", "prints without end"),
        ("sleep 60 & sleep 60", "Timeout", "did not end in time"),
        ("exec >/dev/null 2>&1; exec 2>&- >&-; sleep 60", "Timeout", "did not end in time"),
    ],
)
def test_a_tool_that_does_not_answer(tmp_path: Path, script: str, reason: str, line: str) -> None:
    tool(tmp_path, script)
    began = time.monotonic()
    with pytest.raises(ToolError, match=line) as caught:
        node(tmp_path, 5.0 if script == "yes" else 0.5).run("npu-smi")
    assert caught.value.reason == reason
    assert time.monotonic() - began < 10


def test_tools_of_the_host_run_there(tmp_path: Path) -> None:
    """By chroot, which a script stands for: it needs root."""
    host = tmp_path / "hostfs"
    (host / "opt").mkdir(parents=True)
    tool(host / "opt", "true")
    (tmp_path / "chroot").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "chroot").chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin:/opt"
    one = LocalNode(TextTree(), NoGPUs(), host_root=str(host), path=path)
    assert one.run("npu-smi", "info") == f"{host} npu-smi info\n"
    assert not one.has("cnmon")


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        node(tmp_path).run("npu-smi", "info")
    assert caught.value.reason == "ToolMissing"
    assert not node(tmp_path).has("npu-smi")
