"""What pykoord talks about, as values without behaviour towards the world.

Glossary:
    Pod, Container   what a hook is asked about, whichever transport asks.
    LinuxResources   kernel limits of a pod or container; ``None`` means unset.
    Patch            what a hook wants changed, and why.
    QoSClass         Koordinator's quality class: LSE, LSR, LS, BE, SYSTEM.
    NodeView         what a hook may know about the node, frozen.
"""
