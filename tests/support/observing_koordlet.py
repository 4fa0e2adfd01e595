"""koordlet as it only watches this machine's pods, and what it says of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.processes import get, until
from tests.support.proxy import Koordlet


class ObservingKoordlet(Koordlet):
    """Writes nothing; knows pods by a file at which it looks once in ten minutes, unless woken."""

    def __init__(self, directory: Path) -> None:
        self.pods_file = directory / "pods.json"
        super().__init__(
            directory,
            directory / "hookserver.d",
            "--read-only",
            "--standalone",
            f"--pod-list-source={self.pods_file}",
            "--kubelet-sync-interval=600",
        )
        self.status = directory / "status.sock"

    def page(self, path: str, **parameters: object) -> Any:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return json.loads(get(self.status, path + query))

    def next_look(self) -> float:
        """Wait for the next look at pods; its time, in seconds since the epoch."""
        before = self._looked_at()
        until(lambda: self._looked_at() > before, "the next look")
        return self._looked_at()

    def top(self) -> dict[str, dict[str, Any]]:
        """Pods of /v1/top, by uid."""
        return {pod["uid"]: pod for pod in self.page("/v1/top")["pods"]}

    def measured(self, kind: str, since: float) -> dict[tuple[str, ...], dict[str, float]]:
        """Each series' aggregates over the steps after that of ``since``."""
        window = time.time() - (since // 1 + 0.5)
        page = self.page(
            "/v1/metrics/query", kind=kind, window=window, aggregation="avg,last,count,min,max"
        )
        return {tuple(one["labels"].values()): one["values"] for one in page["series"]}

    def curve(self, kind: str) -> dict[tuple[Any, ...], float]:
        """The points of all series of a kind in the last minute, by labels and time."""
        page = self.page("/v1/metrics/query", kind=kind, window="1m", points=1, step=1)
        return {
            (*one["labels"].values(), at): value
            for one in page["series"]
            for at, value in zip(page["times"], one["points"], strict=True)
            if value is not None
        }

    def _looked_at(self) -> float:
        collectors = self.page("/v1/node")["collectors"]
        return next(float(c["looked_at"]) for c in collectors if c["name"] == "podresource")
