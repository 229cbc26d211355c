"""The site: Sphinx reads the pages of this folder, the docstrings and examples/gallery."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpydoc.xref  # noqa: E402
import reference_pages  # noqa: E402  (a module of _ext)

project = "TotalQBoost"
author = "The TotalQBoost developers"
copyright = author
release = version_of("totalqboost")
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "reference_pages",
    "command_pages",
]
exclude_patterns = ["_build", "_ext", "_templates", "checks", "gallery/**/*.md5"]
templates_path = ["_templates"]

# Pages in Markdown. They are read on their own too, so they use little beyond plain Markdown.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["config.cache"]

# What is copied from a block has no prompts and no outputs.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Reference: docstrings, and links from the types of parameters to their pages.
autosummary_generate = True
smartquotes = False  # they turn -- of options into dashes
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = reference_pages.aliases()
numpydoc.xref.DEFAULT_LINKS.clear()  # of Python and NumPy, whose sites a build would have to ask

# Examples run at every build; one that raises ends it.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "plot_gallery": True,
    "min_reported_time": 1,
    "write_computation_times": False,
    "image_srcset": ["2x"],
    "doc_module": ("totalqboost",),
    "backreferences_dir": None,
    "promote_jupyter_magic": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "TotalQBoost"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_sidebars = {name: [] for name in ("index", "start", "migration")}  # no pages below them
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "TotalQBoost"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "back_to_top_button": True,
}


def setup(app):
    app.connect("autodoc-skip-member", skip_inherited)


def skip_inherited(app, what, name, member, skip, options):
    """Leave out what scikit-learn adds to every estimator; its site describes it."""
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith(("sklearn", "dimod")) or name.startswith("set_") else skip
