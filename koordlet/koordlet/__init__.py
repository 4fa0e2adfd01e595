"""The node agent: it answers the container runtime's hooks on one node.

Glossary:
    hook server    answers a CRI proxy, Koordinator's or ours, over gRPC.
    registration   the file in hookserver.d that tells the proxy where we are.
    stage, plugin  a moment in a pod's life, and what decides about it
                   (``koord_hooks``).
"""
