"""PodMigrationJobs: a pod leaves its node once there is a place for it.

``core/`` decides and does no IO: ``job.py`` and ``job_reservation.py`` are what is read,
``state_machine.py`` is the table of a job's steps, ``arbitration.py`` says which jobs begin,
``documents.py`` makes what is written. ``controller.py`` puts the rest together, which carries it
out: ``job_store.py`` follows jobs, ``job_arbitrator.py`` lets them begin, ``job_steps.py`` takes
their steps, ``job_evictor.py`` ends pods. All that decides is in the objects: after a restart it
goes on from them.
"""
