"""A small server: a checksum of a few milliseconds of CPU for each datagram, by two processes.

Run by itself, with nothing but the standard library: ``latency_server.py PORT ITERATIONS``. A
request is 8 bytes; the answer is those and the time at which it was ready, by CLOCK_MONOTONIC
in nanoseconds.
"""

import hashlib
import os
import signal
import socket
import sys
import time

PROCESSES = 2


def serve(sock: socket.socket, iterations: int) -> None:
    while True:
        request, sender = sock.recvfrom(64)
        hashlib.pbkdf2_hmac("sha256", request, b"salt", iterations)
        sock.sendto(request[:8] + time.monotonic_ns().to_bytes(8, "little"), sender)


def main(port: int, iterations: int) -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind(("127.0.0.1", port))
    # The first process of a container gets no SIGTERM without a handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    for _ in range(PROCESSES - 1):
        if os.fork() == 0:
            break
    serve(sock, iterations)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
