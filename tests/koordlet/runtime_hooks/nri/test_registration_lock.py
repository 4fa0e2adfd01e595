"""Two do not register under one identity."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from koordlet.runtime_hooks.nri.registration_lock import RegistrationLock


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "nri.sock.10-koordlet.lock")


def test_one_has_it_in_one_process_too(path):
    with RegistrationLock(path) as first, RegistrationLock(path) as second:
        assert first.acquire()
        assert first.acquire()
        assert not second.acquire()
        first.release()
        assert second.acquire()


def test_the_file_stays_and_is_ours_only(path):
    with RegistrationLock(path) as lock:
        assert lock.acquire()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert RegistrationLock(path).acquire()


def test_a_process_that_is_killed_gives_it_back(path):
    program = (
        "import sys;"
        "from koordlet.runtime_hooks.nri.registration_lock import RegistrationLock as L;"
        f"lock = L({path!r}); assert lock.acquire(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder, RegistrationLock(path) as lock:
        assert holder.stdout.readline() == b"held\n"
        assert not lock.acquire()
        holder.kill()
        holder.wait()
        assert lock.acquire()


def test_a_file_that_cannot_be_made_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        RegistrationLock(str(tmp_path / "none" / "lock")).acquire()


def test_a_lock_that_cannot_be_taken_leaves_no_file_open(path, monkeypatch):
    closed = []
    close = os.close
    monkeypatch.setattr(os, "close", lambda number: (closed.append(number), close(number)))

    def refuse(*_: object) -> None:
        raise OSError(38, "no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match="no locks here"):
        RegistrationLock(path).acquire()
    assert len(closed) == 1
