"""Study files: what was collected, how, and what to report, in TOML. They are checked as a whole, and only read."""

from vardi.study._data import Data
from vardi.study._plan import Plan, Query, plan
from vardi.study._read import parse, read
from vardi.study._study import OpenStudy, Study

__all__ = ["Data", "OpenStudy", "Plan", "Query", "Study", "parse", "plan", "read"]
