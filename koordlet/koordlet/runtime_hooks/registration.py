"""Registration of koordlet with the CRI proxy: one JSON file.

The proxy watches the directory and reads every name that ends in ``json``. The
file is therefore written under another name, and renamed when it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from koord_hooks.stages import Stage
from koord_service.whole_file import write_whole

FILE_NAME = "koordlet.json"


def registration_text(
    endpoint: str, failure_policy: str, stages: Iterable[Stage], timeout: float = 0.0
) -> str:
    """The registration file's content; ``timeout`` is in seconds, 0 leaves it out.

    Koordinator's proxy knows no ``timeout`` and passes over it.
    """
    content: dict[str, object] = {
        "remote-endpoint": endpoint,
        "failure-policy": failure_policy,
        "runtime-hooks": [stage.value for stage in stages],
    }
    if timeout:
        content["timeout"] = timeout
    return json.dumps(content, indent=2) + "\n"


class HookRegistration:
    """Our file in the proxy's directory.

    It stays when koordlet stops: the proxy is to expect us back. Whoever takes koordlet off a
    node deregisters it (``koordctl hooks remove``).
    """

    def __init__(self, directory: str, text: str) -> None:
        self.path = Path(directory) / FILE_NAME
        self._text = text
        self.written = False
        """True if it was put in place in this run."""

    def write(self) -> None:
        """Put the file in place, whole or not at all; a missing directory is made.

        Raises:
            OSError: the directory cannot be written; the message names it.
        """
        try:
            write_whole(self.path, self._text.encode(), mode=0o644, directory_mode=0o755)
        except OSError as error:
            directory = str(self.path.parent)
            raise OSError(error.errno, f"cannot register: {error.strerror}", directory) from None
        self.written = True
