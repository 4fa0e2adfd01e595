"""A node's worth of runtime, for the demo, the tests and the benchmarks.

runtime      an embedded CRI runtime: pods and cgroup files, but no processes
containerd   a real containerd with a root, a socket and cgroups of its own
oci_image    the one image both know, written without a registry
cri_client   the kubelet's side of CRI
pods         what a kubelet sends for the pods used here
cgroups      what the kernel really holds for a process
story        `make demo`: a batch pod on its way through proxy and koordlet
scheduling   `make demo-scheduler`: the scheduler on a made-up cluster
"""
