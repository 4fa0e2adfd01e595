"""A whole Debian node in an emulator, with systemd, containerd and pykoord's own units.

On the machine that tests: `recipe` says what the node has beside pykoord, `base` makes a
root directory of it and keeps it, `node_disk` adds this checkout and makes a disk,
`machine` boots it and collects what it says, `test_vm` looks at that.

On the node: `scenario` does what an administrator, a kubelet and bad luck would do, with
`kubelet` and `slices`; `observing` has pods burn, and reads what koordlet and the kernel say
of them; `expectations` is the table of pods and figures, which both sides read.
"""
