"""What the node is made of, beside pykoord: packages, and files of ours among theirs."""

from __future__ import annotations

import hashlib
import json

from koord_demo.oci_image import IMAGE

SUITE = "bookworm"
PYTHON = "3.11"
"""The suite's python3, for which pykoord's dependencies are fetched."""

PACKAGES = (
    "busybox-static",
    "containerd",
    "dbus",  # runc asks systemd for cgroups by way of it
    "docker.io",
    "initramfs-tools",
    "kmod",
    "linux-image-cloud-amd64",
    "python3",
    "python3-venv",
    "runc",
    "systemd-sysv",
)

CHECKOUT = "/opt/checkout"
RESULTS = "/dev/ttyS1"
"""The serial line for results alone; the kernel and the journal write to the other one."""
SCENARIO_WORD = "pykoord.scenario"
"""Of the kernel's command line: a module whose ``STEPS`` take the place of the scenario's."""

PARTS_WORD = "pykoord.parts"
"""Of the kernel's command line: those of ``PARTS`` that are asked for."""
PARTS = ("vm", "qos_manager", "docker")
"""The scenario's, in their order; test_vm.py looks at what came of the first, and so on."""

_SCENARIO = f"""\
[Unit]
Description=Scenario of tests/vm
After=multi-user.target containerd.service
# The machine is thrown away: there is nothing to bring down in order.
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate

[Service]
Type=oneshot
WorkingDirectory={CHECKOUT}
# The kubelet's side of CRI is of the demo, which is not installed in production.
Environment=PYTHONPATH={CHECKOUT}/demo
ExecStart=/opt/pykoord/bin/python -m tests.vm.scenario
StandardOutput=tty
TTYPath={RESULTS}
StandardError=journal+console

[Install]
WantedBy=multi-user.target
"""

_CONTAINERD = f"""\
version = 2
# For file systems and hardware that the node has not.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""

# Nobody here has a network that it would have to make or to guard.
_DOCKER = """\
{"bridge": "none", "iptables": false, "ip-forward": false, "ip-masq": false}
"""

FILES = {
    "/etc/hostname": "node\n",
    "/etc/hosts": "127.0.0.1 localhost node\n",
    # There is no network; sandboxes want the file.
    "/etc/resolv.conf": "",
    "/etc/fstab": "/dev/vda / ext4 defaults 0 0\n",
    "/etc/systemd/system/pykoord-scenario.service": _SCENARIO,
    "/etc/containerd/config.toml": _CONTAINERD,
    "/etc/docker/daemon.json": _DOCKER,
    # Emulated on a busy machine, a start may take longer than systemd's minute and a half; what
    # is then ended and started again would never come up.
    "/etc/systemd/system.conf.d/emulated.conf": "[Manager]\nDefaultTimeoutStartSec=300\n",
    # An initramfs with three drivers is unpacked sooner than one with all.
    "/etc/initramfs-tools/conf.d/few-modules": "MODULES=list\n",
    "/etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
}

FINISH = (
    ("systemctl", "enable", "pykoord-scenario.service"),
    # It has its own part of the scenario, and costs the others nothing.
    ("systemctl", "disable", "docker.service", "docker.socket"),
    ("update-initramfs", "-u"),
)
"""Commands in the root, once the files are there."""


def key() -> str:
    """A name for this recipe: another recipe, another root."""
    values = json.dumps([SUITE, PACKAGES, FILES, FINISH])
    return hashlib.sha256(values.encode()).hexdigest()[:16]
