"""In processes of their own: gRPC's core reads its environment once, while it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = "import os; {}; print(os.environ.get('GRPC_VERBOSITY'), os.environ['GRPC_EXPERIMENTS'])"
OURS = "-event_engine_client,-event_engine_listener"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("module", ["koord_proxy.main", "koordlet.agent.main"])
def test_programs_load_it_from_here(module: str) -> None:
    assert run(SHOW.format(f"import {module}")).stdout.split() == ["ERROR", OURS]


def test_what_the_user_has_set_stands() -> None:
    code = SHOW.format("import koord_service.grpc_core")
    shown = run(code, GRPC_VERBOSITY="DEBUG", GRPC_EXPERIMENTS="tcp_frame_size_tuning")
    assert shown.stdout.split() == ["DEBUG", "tcp_frame_size_tuning"]


@pytest.mark.parametrize("module", ["koord_proxy.main", "koordlet.agent.main"])
def test_nobody_loads_it_before(module: str) -> None:
    code = """
import os, sys
def watch(event, arguments):
    if event == "import" and arguments[0] == "grpc._cython.cygrpc":
        print(os.environ.get("GRPC_EXPERIMENTS"))
sys.addaudithook(watch)
import {}
"""
    assert set(run(code.format(module)).stdout.split()) == {OURS}
