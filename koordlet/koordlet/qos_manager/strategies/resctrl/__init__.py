"""Cache ways and memory bandwidth of the classes."""
