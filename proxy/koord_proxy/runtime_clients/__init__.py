"""The proxy's own calls to the runtime behind it, a module for each API."""
