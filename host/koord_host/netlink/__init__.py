"""Messages of netlink, as bytes: requests, and what the kernel answers. No IO.

Hand-written beside pyroute2, which the traffic plugin uses: these are asked hundreds of times in
each round (``docs/adr/0081``). Formats: include/uapi/linux/{netlink,genetlink,taskstats}.h and
inet_diag.h. Sockets are ``koord_host.netlink_sockets``'s.
"""
