"""NRI, the Node Resource Interface: the container runtime asks, a plugin answers.

- **ttrpc**: the runtime's small RPC: a header of ten bytes, then a message.
- **mux**: two ttrpc connections over one socket; on one the runtime calls the
  plugin, on the other the plugin calls the runtime.
- **plugin**: registration, configuration, synchronisation and calls, without IO.
- **client**: the socket, deadlines, and coming back when either side restarts.
- **handler**: what users of this package write.
- **adjustment**: what a plugin wants changed of a container that is being made.
- **update**: what it wants changed of a container that exists.
- **synchronisation**: the existing pods and containers, sent after each connection.
"""
