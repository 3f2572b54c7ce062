"""What the reference shows of a class: no constructor that nobody calls, and no names that only programs ask for."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject

MADE_BY_VARDI = re.compile(  # functions return these: how they are made is nobody's business
    r"vardi\.(DebiasedSample|Verdict|Solution|Estimates?|Domains|DebiasedCdf|Band|Bootstrap|Diagnostics|\w+Check|"
    r"Sensitivity|Bounds|LikelihoodRatio|learn\.(ModelInference|WeightUse)|mbar\.(Equilibration|Convergence)|"
    r"study\.OpenStudy|report\.Report|datasets\.(Matrix)?Design|plots\.\w+Display)"
)
HIDDEN = {"parts"}  # what other modules of vardi ask of a fit
TASKS_OF_A_FIT = {  # every public name of DebiasedSample, once
    "Weights, and rows by weight": (
        "weights",
        "probabilities",
        "weigh",
        "sample",
        "among",
        "replicate_weights",
        "torch_sampler",
        "torch_weights",
    ),
    "Numbers of the population": ("expectation", "expectations", "proportions", "total", "cdf", "bootstrap"),
    "Normalisers and parameters": (
        "normalisers",
        "log_normalisers",
        "log_ratio",
        "omegas",
        "log_omegas",
        "log_omega_covariance",
        "paper_normalisers",
        "parameters",
        "estimated_biases",
        "test_parameters",
        "test_no_bias",
    ),
    "Can it be trusted?": (
        "summary",
        "report",
        "diagnostics",
        "identify",
        "check_biases",
        "sensitivity",
        "bounds",
        "trust",
        "bridge",
        "effective_rows",
        "weight_shares",
        "known",
        "learned",
    ),
    "What it rests on, and more rows": ("sizes", "numeric_columns", "place_of", "update"),
    "Weights elsewhere": ("expression", "to_sql", "uncovered", "save", "weigher"),
}


def is_hidden(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave out ``set_fit_request`` and its like, whose text refers to pages of scikit-learn."""
    return skip or name in HIDDEN or re.fullmatch(r"set_\w+_request", name) is not None


def without_constructor(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Return no signature for a class whose objects come from functions."""
    return ("", None) if what == "class" and MADE_BY_VARDI.fullmatch(name) else (signature, returned)


def keep_summary(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Break the first line of an attribute's text before its colon: Napoleon takes what stands there for a type.

    The break is escaped, so that it leaves no gap.
    """
    if what in {"attribute", "property"} and lines:
        before, colon, after = lines[0].partition(": ")
        lines[:1] = [f"{before}\\", f": {after}"] if colon else [before]


def unlink_words(app: Sphinx, tree: nodes.document) -> None:
    """Take links off the words of a type: "array of shape (n,)" is not about an attribute that is called shape."""
    for link in list(tree.findall(addnodes.pending_xref)):
        if link.get("refspecific") and link["reftype"] == "class" and re.fullmatch("[a-z]+", link["reftarget"]):
            link.replace_self(link.children)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect what autodoc asks, and call attributes by their name."""
    app.connect("autodoc-skip-member", is_hidden)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("autodoc-process-docstring", keep_summary, priority=400)  # before Napoleon
    app.connect("doctree-read", unlink_words)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
