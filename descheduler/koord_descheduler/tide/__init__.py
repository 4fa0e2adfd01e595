"""TideNodePools: nodes go between services and batch jobs as the load does."""
