"""The report: a fit as one HTML file that opens offline, prints well and reads on a phone.

``compute`` gathers all numbers and sentences into a frozen value; ``to_html`` only lays them out. Needs jinja2:
``pip install 'vardi[report]'``.
"""

from vardi.report._compute import Report, compute
from vardi.report._render import to_html

__all__ = ["Report", "compute", "to_html"]
