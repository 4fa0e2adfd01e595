"""ClusterColocationProfile: pods become co-located ones as they are created, or later."""
