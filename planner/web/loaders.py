"""Templates are indented for the people who read them; the indentation is not sent to browsers."""

from __future__ import annotations

import re

from django.template import Origin
from django.template.loaders import app_directories

OURS = "planner/"
_INDENT = re.compile(r"\n\s+")
_STATEMENT_LINES = re.compile(r"\n(?=\{%)|(?<=%\})\n")


class CompactLoader(app_directories.Loader):
    """Line breaks of our templates stand between block-level tags only, where white space means nothing."""

    def get_contents(self, origin: Origin) -> str:
        """The source of a template, its indentation and the lines of bare statements taken out."""
        source: str = super().get_contents(origin)
        if not str(origin.template_name).startswith(OURS):
            return source
        return _STATEMENT_LINES.sub("", _INDENT.sub("\n", source))
