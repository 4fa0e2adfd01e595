"""What is said to pods before they are kept: ``mutating`` and ``validating``, a file each part.

None of it for pods of kube-system, nor of a namespace labelled ``control-plane``. No IO.
"""
