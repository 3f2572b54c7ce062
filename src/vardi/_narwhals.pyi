from narwhals import *  # noqa: F403
from narwhals import dtypes as dtypes
from narwhals import exceptions as exceptions
