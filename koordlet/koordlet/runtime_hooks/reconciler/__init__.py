"""Brings the node to the desired state in a loop, and corrects drift."""
