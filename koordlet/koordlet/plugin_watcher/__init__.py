"""Plugins of others that register by a socket in a directory, as with the kubelet.

- A *kind* is the ``type`` in the kubelet's ``PluginInfo``: "EvictionPlugin", "ResourcePlugin".
- ``watcher`` finds sockets, asks each who it is, and tells whoever follows a kind of its plugins.
- ``client`` calls a plugin: every call has a deadline, an answer a bound in bytes, and a plugin
  that does not answer a pause.
"""
