"""This node's metrics in the format of Malachite's HTTP API, as Katalyst's agent reads them.

``pages`` has the paths; ``core`` builds the documents, kernel text in and plain values out. Field
names and units are those of katalyst-core's client
(``pkg/metaserver/agent/metric/provisioner/malachite``). What the kernel does not say, and what
Malachite has from eBPF or the PMU, is left out: the client takes that as 0.
"""
