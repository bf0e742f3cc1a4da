"""Launch files of a plan's option, one module a format."""

from planner.export.base import Launch, NotExportable, Stamp
from planner.export.registry import FORMATS, possible, render

__all__ = ["FORMATS", "Launch", "NotExportable", "Stamp", "possible", "render"]
