from __future__ import annotations

import os

import pytest
from koord_service import grpc_core


def test_what_the_user_has_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    grpc_core.prepare()
    assert os.environ["GRPC_VERBOSITY"] == "DEBUG"
    assert "-event_engine_client" in os.environ["GRPC_EXPERIMENTS"]
    monkeypatch.delenv("GRPC_EXPERIMENTS")
