"""Controllers and webhooks that run once per cluster.

Glossary:
    reconciler   a function from what is there to what should be; it decides, a controller writes.
    controller   watches, asks a reconciler, writes; only the leader's controllers run.
    leader       the one of several managers that holds the Lease.
    webhook      a function from an object that is to be kept to a verdict, on every manager.
    profile      a ClusterColocationProfile: which pods become co-located ones, and how.
    receiver     receives reports that nodes send to the leader, and publishes them.
"""
