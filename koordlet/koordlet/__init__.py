"""The node agent: it enforces QoS on one node and reports its usage.

Glossary:
    hook server    answers a CRI proxy, Koordinator's or ours, over gRPC.
    registration   the file in hookserver.d by which the proxy finds the hook server.
    stage, plugin  a moment in a pod's life, and what decides about it (``koord_hooks``).
    inventory      the pods and containers that run on this node.
    desired value  what plugins or strategies want in a kernel file or of a task.
    reconcile      to bring the node to its desired state, once for all pods.
    NRI            the runtime's own way to call plugins, without a proxy (``nri``).
"""
