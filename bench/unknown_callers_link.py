"""Unknown callers that report with made-up tokens, each another one, which look as good ones do."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import ssl
import sys
import time

from bench import node_link
from bench.node_link import Answers, Connection

_FIRST = 600_000
"""Of their addresses, apart from those of nodes."""


def main(rate: float, addresses: int) -> None:
    """Ask where to connect, connect, and report at a steady rate; "mark" as nodes do."""
    given = json.loads(sys.stdin.readline())
    context = ssl.create_default_context(cadata=given["authority"])
    context.set_alpn_protocols(["h2"])
    answers = Answers()
    opened = [
        Connection(_FIRST + number, given["port"], context, answers) for number in range(addresses)
    ]
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for one in opened:
        selector.register(one.socket, selectors.EVENT_READ, one)
    print("ready", flush=True)
    sys.stdin.readline()
    message = node_link.messages(0)[0]
    began = time.perf_counter()
    for number in itertools.count():
        due = began + number / rate
        while True:
            left = due - time.perf_counter()
            for key, _ in selector.select(max(0.0, left)):
                if key.data is not None:
                    key.data.read()
                elif sys.stdin.readline() == "mark\n":
                    print(answers.summary(), flush=True)
                else:
                    os._exit(1)
            if left <= 0:
                break
        head = node_link.headers(node_link.token(f"unknown-{number}"))
        opened[number % addresses].report(head, message, due)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
