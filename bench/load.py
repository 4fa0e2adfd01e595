"""h2load as the client: calls made, and how long each took."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

GRPC = ["-H", "content-type: application/grpc", "-H", "te: trailers"]


class Load(NamedTuple):
    """Result of one run of h2load: sorted microseconds of calls, and calls a second."""

    micros: Sequence[int]
    rate: float

    def percentile(self, share: float) -> float:
        return float(self.micros[min(int(len(self.micros) * share), len(self.micros) - 1)])


def calls(
    socket: Path,
    path: str,
    *,
    count: int,
    callers: int = 1,
    connections: int = 1,
    body: Path | None,
    scratch: Path,
    http1: bool = False,
) -> Load:
    """Make calls, so many at a time a connection; any that fails ends the benchmark.

    They are gRPC's, or with ``http1`` plain requests of HTTP/1.1.
    """
    log = scratch / "h2load.log"
    log.unlink(missing_ok=True)
    command = [
        "h2load",
        "-n",
        str(count),
        "-c",
        str(connections),
        "-m",
        str(callers),
        f"--log-file={log}",
    ]
    command += ["--h1"] if http1 else GRPC
    if body is not None:
        command += ["-d", str(body)]
    command += ["-B", f"unix:{socket}", f"http://localhost{path}"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    done = re.search(rf"(\d+) succeeded.*\n.*status codes: {count} 2xx", out)
    rate = re.search(r"([\d.]+) req/s", out)
    if done is None or int(done[1]) != count or rate is None:
        raise SystemExit(f"bench: calls of {path} over {socket} failed:\n{out}")
    rows = (line.split("\t") for line in log.read_text().splitlines())
    return Load(sorted(int(row[2]) for row in rows), float(rate[1]))


def message(directory: Path, name: str, data: bytes) -> Path:
    """A file with one gRPC message, as h2load sends it."""
    path = directory / name
    path.write_bytes(b"\0" + len(data).to_bytes(4, "big") + data)
    return path
