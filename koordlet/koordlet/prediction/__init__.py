"""What pods and the node will need: histograms of what they used, and peaks. No IO."""
