"""How the documentation is built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``, without network."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE), str(HERE.parent)]  # the last for paper
mpl.use("Agg")

from reference import TASKS_OF_A_FIT  # noqa: E402, of _extensions

project = "vardi"
author = copyright = "The vardi developers"
version = release = version_of("vardi")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "pictures",
    "reference",
    "sessions",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_generated", "README.md", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # a function in the gallery's settings cannot be pickled

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_substitutions = {"version": release}
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {"tasks_of_a_fit": TASKS_OF_A_FIT}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what a parameter may be
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "thumbnail_size": (480, 210),
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": os.environ.get("VARDI_GALLERY", "1") == "1",  # 0 builds the pages without running the examples
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "ignore_repr_types": r"matplotlib\.",
    "matplotlib_animations": False,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("vardi",),
    "reference_url": {"vardi": None},
    "inspect_global_variables": False,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_copy_empty_lines = False
copybutton_exclude = ".linenos, .go"  # what is printed

html_theme = "pydata_sphinx_theme"
html_title = "vardi"
html_static_path = ["_static"]
html_css_files = ["vardi.css"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "vardi", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "alt_text": ""},
    "navbar_start": ["navbar-logo", "version"],
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
}
html_sidebars = {"index": [], "start": []}
