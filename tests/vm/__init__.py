"""A whole Debian node in an emulator, with systemd, containerd, docker and pykoord's own units.

On the machine that tests: `recipe` says what the node has beside pykoord, `base` makes a
root directory of it and keeps it, `node_disk` adds this checkout and makes a disk,
`machine` boots it and collects what it says, `test_vm` looks at that.

On the node: `scenario` does what an administrator, a kubelet and bad luck would do, with
`kubelet` and `slices`; `observing` has pods burn, and reads what koordlet and the kernel say
of them; `managing` has the QoS manager do all that it can here, `managed_files` is what it writes,
`neighbours` what works with koordlet there;
`docking` takes docker for containerd, with `cri_dockerd` between it and the kubelet.
`expectations` is the table of pods and figures, `managed` what the QoS manager is asked for:
both sides read them.
"""
