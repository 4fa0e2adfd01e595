"""What koordlet knows: which pods run here, and what the node is."""
