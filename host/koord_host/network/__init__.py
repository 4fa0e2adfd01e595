"""Classes of outgoing traffic: planned, told apart by packet filters, put into the kernel."""
