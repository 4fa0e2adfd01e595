"""Front proxies, and the options of list and watch requests. No IO."""
