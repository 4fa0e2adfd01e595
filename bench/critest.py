"""critest's specs on a real containerd: direct, through the proxy, and with koordlet's hooks.

``python -m bench.critest CRITEST``: as root on Debian, with containerd and
containernetworking-plugins; CRITEST is the program of Kubernetes' cri-tools (``go test -c
./cmd/critest`` in its tree). Some minutes; writes results/critest.md.

The images that critest wants come from a registry on this machine's loopback, and are all
busybox. Everything is in a network namespace of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from koord_demo.containerd import Containerd
from koord_demo.oci_image import BUSYBOX

from bench import programs

RESULT = Path(__file__).parent / "results" / "critest.md"
_INSIDE = "PYKOORD_CRITEST_INSIDE"
_PORT = 5000
_CNI = Path("/usr/lib/cni")
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "critest",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "critest0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.88.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
_OCI = "application/vnd.oci.image"
_USERS = {
    "test-image-user-uid": "1002",
    "test-image-user-username": "www-data",
    "test-image-user-uid-group": "1003:users",
    "test-image-user-username-group": "www-data:www-data",
    "test-image-predefined-group": "1000",
}
"""Users of images, by the last part of their names."""
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/false\n"
    "default-user:x:1000:1000::/:/bin/sh\n",
    "etc/group": "root:x:0:\nusers:x:100:\nwww-data:x:33:\ndefault-user:x:1000:\n"
    "group-defined-in-image:x:50000:default-user\n",
    "www/index.html": "hello\n",
}


# ---- images


class _Images:
    """A registry's answers for any image: busybox, with the user and the command of its name."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self._layer = self._add(_layer())

    def manifest(self, name: str) -> bytes:
        """The manifest of an image."""
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "os": "linux",
            "config": {
                "User": _USERS.get(name, ""),
                "Cmd": _command(name),
                "Env": ["PATH=/bin"],
                # Images with other names are others.
                "Labels": {"name": name},
            },
            "rootfs": {"type": "layers", "diff_ids": [self._layer["digest"]]},
        }
        made = {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": self._add(_json(config)) | {"mediaType": f"{_OCI}.config.v1+json"},
            "layers": [self._layer | {"mediaType": f"{_OCI}.layer.v1.tar"}],
        }
        return self.blobs[self._add(_json(made))["digest"]]

    def _add(self, blob: bytes) -> dict[str, Any]:
        digest = _digest(blob)
        self.blobs[digest] = blob
        return {"digest": digest, "size": len(blob)}


def _command(name: str) -> list[str]:
    if "nginx" not in name:
        return ["sh"]
    port = "12003" if "hostnet" in name else "80"
    return ["httpd", "-f", "-p", port, "-h", "/www"]


def _layer() -> bytes:
    buffer = io.BytesIO()
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True)
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "var", "www"):
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(made)
        files = {"bin/busybox": BUSYBOX.read_bytes()}
        for name, data in {**files, **{k: v.encode() for k, v in _FILES.items()}}.items():
            made = tarfile.TarInfo(name)
            made.size, made.mode = len(data), 0o755
            tar.addfile(made, io.BytesIO(data))
        for name in applets.stdout.split():
            made = tarfile.TarInfo(f"bin/{name}")
            made.type, made.linkname = tarfile.SYMTYPE, "busybox"
            if name != "busybox":
                tar.addfile(made)
    return buffer.getvalue()


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


@contextlib.contextmanager
def _registry() -> Any:
    images = _Images()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if len(parts) < 3:
                return self._answer(b"{}", "application/json")
            if parts[-2] == "manifests":
                kind = f"{_OCI}.manifest.v1+json"
                wanted, made = parts[-1], images.manifest(parts[-3])
                if wanted.startswith("sha256:"):
                    return self._answer(images.blobs.get(wanted), kind)
                return self._answer(made, kind)
            return self._answer(images.blobs.get(parts[-1]), "application/octet-stream")

        do_HEAD = do_GET  # noqa: N815 - its base calls it by this name

        def _answer(self, body: bytes | None, kind: str) -> None:
            self.send_response(404 if body is None else 200)
            body = body or b""
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", _PORT), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


# ---- runs


Outcomes = Mapping[str, str]
"""Ends of specs in one run, by name: passed, skipped or failed."""


def _run(critest: Path, socket: Path, scratch: Path, words: list[str]) -> Outcomes:
    report = scratch / f"{socket.stem}.xml"
    command = [
        *(str(critest), f"--runtime-endpoint=unix://{socket}", f"--image-endpoint=unix://{socket}"),
        f"--ginkgo.junit-report={report}",
        *("--ginkgo.no-color", *words),
    ]
    with (scratch / f"{socket.stem}.log").open("wb") as log:
        subprocess.run(command, check=False, stdout=log, stderr=log)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        name = case.get("name", "").removeprefix("[It] ")
        outcomes[name] = case.get("status", "")
    if not outcomes:
        raise RuntimeError(
            f"critest ran nothing; its log ends:\n{Path(log.name).read_text()[-3000:]}"
        )
    return outcomes


def run(critest: Path, words: list[str], scratch: Path) -> dict[str, Outcomes]:
    """The three runs, by what is between critest and containerd."""
    found = {}
    with _registry(), Containerd() as containerd:
        network = containerd.directory / "cni"
        network.mkdir(exist_ok=True)
        for plugin in ("bridge", "host-local", "portmap", "loopback"):
            (network / plugin).symlink_to(_CNI / plugin)
        (network / "10-critest.conflist").write_text(json.dumps(_NETWORK))
        mirror = containerd.directory / "registries" / "_default" / "hosts.toml"
        mirror.parent.mkdir(parents=True)
        mirror.write_text(f'[host."http://127.0.0.1:{_PORT}"]\n')
        backend, hooks = Path(containerd.address), scratch / "hooks"
        found["nothing"] = _run(critest, backend, scratch, words)
        with programs.proxy(scratch / "proxy.sock", backend, hooks=scratch / "none"):
            found["the proxy"] = _run(critest, scratch / "proxy.sock", scratch, words)
        with (
            programs.koordlet(scratch / "koordlet.sock", hooks),
            programs.proxy(scratch / "hooked.sock", backend, hooks=hooks),
        ):
            found["the proxy, hooks of koordlet"] = _run(
                critest, scratch / "hooked.sock", scratch, words
            )
    return found


_FAILED = """\
All images are busybox here, in place of nginx, httpd and others, and none has a digest that critest
knows. So, or by this containerd or machine, these fail without the proxy, too:"""


def document(found: Mapping[str, Outcomes]) -> str:
    """The Markdown page."""
    done = subprocess.run(["containerd", "--version"], check=True, capture_output=True, text=True)
    version = "containerd " + done.stdout.split()[2]
    direct = found["nothing"]
    lines = [
        "# critest",
        "",
        f"critest's specs on {version}, in three runs.",
        "By hand: `python -m bench.critest CRITEST`.",
        "",
        "| between critest and containerd | passed | failed | skipped | other than direct |",
        "|---|---|---|---|---|",
    ]
    for name, outcomes in found.items():
        counts = Counter(outcomes.values())
        others = [spec for spec, end in outcomes.items() if direct.get(spec) != end]
        lines.append(
            f"| {name} | {counts['passed']} | {counts['failed']} | {counts['skipped']} "
            f"| {', '.join(others) or 'none'} |"
        )
    failed = sorted(spec for spec, end in direct.items() if end == "failed")
    lines += ["", _FAILED, "", *(f"- {spec}" for spec in failed)]
    return "\n".join(lines) + "\n"


def main() -> None:
    critest, *words = sys.argv[1:]
    if _INSIDE not in os.environ:
        inside = 'ip link set lo up && exec "$0" "$@"'
        command = [sys.executable, "-m", "bench.critest", critest, *words]
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", inside, *command])
    with tempfile.TemporaryDirectory(prefix="critest-") as scratch:
        found = run(Path(critest).resolve(), words, Path(scratch))
    RESULT.write_text(document(found))
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
