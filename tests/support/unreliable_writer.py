"""koord-scheduler whose bindings get lost now and then, on their way there or back."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from functools import partial
from random import Random
from typing import ClassVar

from koord_kube import api_writer
from koord_kube.answers import Answer, Cancellable, Settle
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

    def submit(self, request: Request, settle: Settle) -> Cancellable:
        is_binding = request.subresource == "binding"
        chance = self.rng.random() if is_binding else 1.0
        if chance < self.lost / 2:
            self._count("before")
            return asyncio.get_running_loop().call_soon(settle, ApiError("lost before", 0))
        if chance < self.lost:
            return super().submit(request, partial(self._lose, settle))
        return super().submit(request, settle)

    def _lose(self, settle: Settle, _: Answer) -> None:
        self._count("after")
        settle(ApiError("lost after", 500))

    def _count(self, when: str) -> None:
        self.counts[when] += 1
        sys.stderr.write(json.dumps({"message": LOST_LINE, "when": when}) + "\n")


if __name__ == "__main__":
    api_writer.Http2Writer = UnreliableWriter  # type: ignore[misc]
    main.main()
