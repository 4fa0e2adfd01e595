"""The ConfigMap ``slo-controller-config``: followed, and validated as it is written."""
