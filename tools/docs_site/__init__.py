"""Builds the documentation site: ``make docs``.

The source folder is the repository itself, so that every page is built from where it stands, links
between pages work there as here, and an address of the site is a path of the repository.

==================  ==================================================================
``conf``            settings of Sphinx; where the repository is on the web
``extension``       what Sphinx loads: the parts below
``file_links``      links to files and folders that are not pages
``page_list``       lists of pages that the navigation leaves out
``folder_pages``    pages of a folder follow its README, in the README's order
``layered_graph``   the graph of packages as a picture
``pictures``        SVG pictures take the colors of the page, light or dark
``chinese``         the search in Chinese, and lines of pages in Chinese
``reference``       tables that are made of definitions, flags, gates, metrics, alerts;
                    ``reference_tables`` puts them into pages
==================  ==================================================================
"""
