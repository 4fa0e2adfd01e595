"""PersistentVolumes, claims and what stands behind them, as the scheduler reads them. No IO.

Glossary:
    claim      a PersistentVolumeClaim; its key is namespace/name.
    delayed    a claim whose class says WaitForFirstConsumer: it is bound once its pod has a node.
    static     binding a claim to a volume that is there already; otherwise one is provisioned.
    assumed    decided here, and not yet seen from the API.
"""
