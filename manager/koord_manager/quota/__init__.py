"""ElasticQuotas: their tree, the pods they are charged for, and quotas made of profiles."""
