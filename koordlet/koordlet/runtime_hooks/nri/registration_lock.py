"""One registration an identity: a lock that whoever may register can see.

A runtime takes two plugins of one name and index and asks both, so that two
koordlets (an old one that does not end, a rolling update) would each change what
the other changed. The lock is a file beside the runtime's socket, locked with
flock: those who can reach the socket see the same directory, the kernel gives the
lock back whatever a process dies of, and as it hangs on the open file, a second
client in the same process does not get it either. An abstract socket would be seen
in one network namespace only, and any user could take its name.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType


class RegistrationLock:
    """A lock on a file, which stays: with the file removed, two could hold two locks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take it if nobody else has it; False if somebody does.

        Raises:
            OSError: the file cannot be made or locked.
        """
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give it back; nothing happens where it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> RegistrationLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
