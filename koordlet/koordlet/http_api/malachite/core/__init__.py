"""Documents of Malachite's HTTP API, out of kernel files. No IO of its own."""
