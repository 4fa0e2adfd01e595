"""PodMigrationJobs: a pod leaves its node once there is a place for it.

``core/`` decides and does no IO: ``job.py`` and ``job_reservation.py`` are what is read,
``state_machine.py`` is the table of a job's steps, ``arbitration.py`` says which jobs begin,
``documents.py`` makes what is written. ``controller.py`` carries it out. All that decides is in
the objects: after a restart it goes on from them.
"""
