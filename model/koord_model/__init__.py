"""Pykoord's vocabulary: values without behaviour towards the world.

Glossary:
    Pod, Container   what a hook is called for, over any transport.
    LinuxResources   kernel limits of a pod or container; ``None`` means unset.
    Patch            what a hook wants changed, and why.
    QoSClass         Koordinator's quality class: LSE, LSR, LS, BE, SYSTEM.
    NodeView         what a hook may know about the node, frozen.
"""
