"""Reservations: room on nodes that is kept for some pods. No IO.

The rules of Koordinator's plugin Reservation: which pods may use a reservation, whether they fit,
and which reservation of several they get.
"""
