"""Common parts of programs' web pages: no build, no framework, nothing from elsewhere.

The charts are drawn by hand, as SVG: two kinds of them take some 200 lines, a kept
library is ten times what a whole page is and would have to be shipped with it.
"""
