"""What every test may ask for."""

from tests.support.containerd import containerd

__all__ = ["containerd"]
