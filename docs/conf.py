"""Configuration of the documentation; built strictly, so that a broken link fails."""

from importlib.metadata import version as installed

project = "holdcourse"
author = "The holdcourse developers"
copyright = "2026, the holdcourse developers"  # noqa: A001
version = release = installed("holdcourse")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "holdcourse"
nitpicky = False
