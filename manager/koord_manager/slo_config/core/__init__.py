"""The ConfigMap ``slo-controller-config``: read, validated as a whole, laid out per node. No IO."""
