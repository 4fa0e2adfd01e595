"""A session between a client and a backend; what the two of them send."""

from __future__ import annotations

import pytest

from tests.support.cri_playbook import Playbook
from tests.support.frames import ClientFrames, ServerFrames


@pytest.fixture
def play() -> Playbook:
    return Playbook()


@pytest.fixture
def client(play: Playbook) -> ClientFrames:
    return play.client


@pytest.fixture
def server(play: Playbook) -> ServerFrames:
    return play.server
