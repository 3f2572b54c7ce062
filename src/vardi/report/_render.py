"""A report -> one HTML file: templates with every text escaped, and a policy that lets the browser fetch nothing."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from vardi._estimate.intervals import DOUBTED, REFUSED
from vardi._estimate.sensitivity.result import FURTHEST, factor_text
from vardi._facts.numbers import interval, number, pvalue, rows_text, share, with_error
from vardi.errors import OutputError
from vardi.errors._texts import count, cut
from vardi.report import _charts, _graph
from vardi.report._compute import Report

if TYPE_CHECKING:
    import jinja2

POLICY = (
    "default-src 'none'; img-src data:; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
)
"""The content security policy: nothing is fetched, and only this script and this style are allowed."""


def require_html(path: str | os.PathLike[str]) -> None:
    """Refuse a name whose suffix is not that of an HTML file."""
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        remedy = "To get a PDF, open that in a browser and print it."
        raise OutputError(
            f"A report is an HTML file, and {path} has another suffix. Name it .html. {remedy}", path=str(path)
        )


def to_html(report: Report) -> str:
    """Return the report as a complete HTML page that needs no other file.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.strata()
    >>> report = vardi.report.compute(vardi.debias(design.samples, design.biases), title="<b>Strata</b>")
    >>> html = vardi.report.to_html(report)
    >>> "<h1>&lt;b&gt;Strata&lt;/b&gt;</h1>" in html
    True
    """
    style, script = _asset("report.css"), _asset("report.js")
    return str(
        _template().render(
            report=report,
            style=style,
            script=script,
            policy=POLICY.format(style=_hash(style), script=_hash(script)),
            charts=_charts,
            curves=[(one, _charts.bins(one), _charts.steps(one)) for one in report.distributions],
            graph=_graph.graph(report.overlap) if len(report.overlap.names) <= 20 else None,
            cells=_graph.cell_names(report.overlap),
            refused=REFUSED,
            doubted=DOUBTED,
        )
    )


def breakable(name: object) -> str:
    """Return a name that may go on in the next line after an underscore."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in str(name).split("_"))


def factor(value: float) -> str:
    return factor_text(value) if value <= FURTHEST else f"over {FURTHEST:g}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("vardi.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("Reports need jinja2: pip install 'vardi[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (number, share, pvalue, with_error, rows_text, count, cut, breakable, factor)
    environment.filters |= {one.__name__: one for one in filters}
    environment.globals |= {"interval": interval, "zip": zip}
    environment.tests |= {"known": math.isfinite}
    return environment.get_template("report.html")
