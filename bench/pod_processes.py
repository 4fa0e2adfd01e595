"""Processes of pods: of each some in every container, and connections in a namespace of its own.

Of these koordlet reads delays and connections. They take root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PROCESSES, CONNECTIONS = 3, 10
"""Processes of a container, of two threads each, and connections of a pod."""

_POD = f"""
import os, socket, subprocess, sys, threading, time
directories = sys.argv[1:]
subprocess.run("ip link set lo up; ip addr add 10.9.0.1/32 dev lo; ip addr add 10.9.0.2/32 dev lo",
               shell=True, check=True)
server = socket.create_server(("10.9.0.1", 9000))
made = []
for _ in range({CONNECTIONS} // 2):
    made.append(socket.create_connection(("10.9.0.1", 9000), source_address=("10.9.0.2", 0)))
    made.append(server.accept()[0])
for directory in directories:
    for _ in range({PROCESSES}):
        if os.fork() == 0:
            with open(directory + "/cgroup.procs", "a") as procs:
                procs.write(f"{{os.getpid()}}\\n")
            threading.Thread(target=lambda: time.sleep(1e6), daemon=True).start()
            while True:
                time.sleep(0.2)
print("ready", flush=True)
while True:
    for process in made:
        process.send(b"x" * 100)
    for process in made:
        process.recv(100)
    time.sleep(1)
"""


@contextlib.contextmanager
def running(pods: Sequence[Sequence[Path]]) -> Iterator[None]:
    """Processes in the containers of pods, by the containers' directories with their list."""
    started = []
    try:
        for directories in pods:
            words = ["unshare", "--net", sys.executable, "-S", "-c", _POD, *map(str, directories)]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
