"""The node agent: it answers the container runtime's hooks on one node, and keeps it level.

Glossary:
    hook server    answers a CRI proxy, Koordinator's or ours, over gRPC.
    registration   the file in hookserver.d that tells the proxy where we are.
    stage, plugin  a moment in a pod's life, and what decides about it
                   (``koord_hooks``).
    inventory      the pods and containers known to run here.
    wish           a value that plugins want of a kernel file or a task.
    level, round   to bring the node to what is wished; doing so once for all pods.
    NRI            the runtime's own way to ask us, without a proxy (``nri``).
"""
