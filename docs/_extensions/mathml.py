"""Formulas as MathML, which browsers draw themselves: no script and no font is fetched when a page is read."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

OPENING = re.compile(r"\\[bB]igg?l?\s*(\(|\[|\\\{)")
CLOSING = re.compile(r"\\[bB]igg?r?\s*(\)|\]|\\\})")
SIZES = re.compile(r"\\[bB]igg?[lrm]?(?![a-zA-Z])")  # of what need not grow: the stroke of a quotient
FRACTION = re.compile(r"\\([td]?frac)(\d)(\d)")  # two digits, which the converter takes for one number
ENTITY = re.compile(r"&(?!lt;|gt;|amp;)\w+;")  # of HTML, unknown to XML
ACCENTS = {"ˆ": "ˆ", "~": "~", "ˉ": "¯"}  # the last as fonts have it
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
ElementTree.register_namespace("", NAMESPACE[1:-1])
logger = logging.getLogger(__name__)


def mathml(text: str, *, block: bool) -> str:
    """Return TeX as MathML.

    Parameters
    ----------
    text : str
        The formula, without dollars.
    block : bool
        Whether it stands in a line of its own.
    """
    plain = SIZES.sub("", CLOSING.sub(r"\\right\1", OPENING.sub(r"\\left\1", text)))
    plain = FRACTION.sub(r"\\\1{\2}{\3}", plain)
    if block and "&" in plain and r"\begin" not in plain:
        plain = rf"\begin{{aligned}}{plain}\end{{aligned}}"
    found = latex2mathml.tex2mathml(plain, as_block=block)
    tree = ElementTree.fromstring(ENTITY.sub(lambda entity: unescape(entity[0]), found))
    for node in tree.iter():
        _set_accent(node)
    return ElementTree.tostring(tree, encoding="unicode")


def _set_accent(node: ElementTree.Element) -> None:
    """Put the index of an accented letter beside it: the converter takes it for a limit, and puts it below."""
    accent = node[-1] if len(node) else None
    if accent is None or accent.text not in ACCENTS or not node.tag.endswith(("mover", "munderover")):
        return
    accent.text = ACCENTS[accent.text]
    if len(node) == 3:
        base, index, _ = node
        over = ElementTree.Element(f"{NAMESPACE}mover", accent="true")
        over.extend([base, accent])
        node.tag = f"{NAMESPACE}msub"
        node[:] = [over, index]


def visit(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula, or warn of what the converter does not know."""
    block = isinstance(node, nodes.math_block)
    try:
        found = mathml(node.astext(), block=block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(f'<div class="formula">{found}</div>' if block else found)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer of formulas."""
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
