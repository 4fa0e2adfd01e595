"""Quarantine of nodes that swallow pods: their kubelets reject what is bound to them. No IO.

Glossary:
    verdict     what became of a binding: accepted (the pod runs), or rejected by the kubelet.
    kind        the extended resource that a rejection is about; "" is the whole node.
    quarantine  a node is not chosen for pods that request the kind, or for any pod.
    trial       the one pod by which a node in quarantine is tried again.
"""
