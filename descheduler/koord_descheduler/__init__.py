"""koord-descheduler: moves pods to where they are better off, as Koordinator's does."""
