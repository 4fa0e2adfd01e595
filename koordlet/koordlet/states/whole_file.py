"""Writing a file of ours whole or not at all: whoever reads it sees the old or the new text."""

from __future__ import annotations

from pathlib import Path

MODE = 0o600


def write_whole(path: Path, data: bytes, mode: int = MODE) -> None:
    """Write ``data`` aside and rename it; a missing directory is made.

    Raises:
        OSError: it cannot be written; the old file is then as it was.
    """
    half = path.with_name(f".{path.name}.part")
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    half.unlink(missing_ok=True)
    half.touch(mode)
    half.write_bytes(data)
    half.replace(path)
