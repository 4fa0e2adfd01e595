"""koord-scheduler whose bindings get lost now and then, on their way there or back."""

from __future__ import annotations

import json
import sys
from collections import Counter
from random import Random
from typing import ClassVar

from koord_kube import api_writer
from koord_kube.http2_writer import Http2Writer
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.request import Request
from koord_scheduler.program import main

LOST_LINE = "binding lost"
"""The message of the line on stderr for each."""


class UnreliableWriter(Http2Writer):
    """Loses the share ``lost`` of bindings: one half is never sent, the other has no answer."""

    lost: ClassVar[float] = 0.01
    counts: ClassVar[Counter[str]] = Counter()
    rng: ClassVar[Random] = Random(1)

    async def write(self, request: Request) -> bytes:
        is_binding = request.subresource == "binding"
        chance = self.rng.random() if is_binding else 1.0
        if chance < self.lost / 2:
            self._count("before")
            raise ApiError("lost before", 0)
        answer = await super().write(request)
        if chance < self.lost:
            self._count("after")
            raise ApiError("lost after", 500)
        return answer

    def _count(self, when: str) -> None:
        self.counts[when] += 1
        sys.stderr.write(json.dumps({"message": LOST_LINE, "when": when}) + "\n")


if __name__ == "__main__":
    api_writer.Http2Writer = UnreliableWriter  # type: ignore[misc]
    main.main()
