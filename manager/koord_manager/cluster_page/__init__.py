"""The cluster at a glance, for people: a web page, and what it asks for while somebody looks."""
