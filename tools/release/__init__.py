"""Build of a release: ``python -m tools.release`` writes its files into ``dist``.

=================  ==================================================================
module             what it makes
=================  ==================================================================
``sources``        the files of a tag, or of the working tree
``distributions``  source distribution, wheel, and the locked wheels of libraries
``prefix``         ``/opt/pykoord``: the programs with their libraries
``manuals``        man pages and completions
``packages``       ``.deb`` and ``.rpm``, of one tree
``archive``        one file that needs only a Python
``images``         OCI images
``evidence``       SBOM and checksums
=================  ==================================================================
"""
