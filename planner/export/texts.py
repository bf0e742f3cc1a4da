"""Writers that quote for their format: YAML, JSON, shell. Nothing is ever pasted together."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

WIDTH = 1 << 16
"""No line is folded: what is one value stays on one line."""
END_OF_FILE = "SHARDPLAN_END_OF_FILE"


def yaml_text(*documents: Mapping[str, Any]) -> str:
    """YAML documents, members in the order given."""
    options: dict[str, Any] = {"sort_keys": False, "default_flow_style": False, "width": WIDTH, "allow_unicode": True}
    text: str = yaml.dump_all(documents, Dumper=Block, explicit_start=len(documents) > 1, **options)
    return text


class Block(yaml.SafeDumper):
    """Texts of several lines as blocks, so that a script in a file can be read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Block.add_representer(str, _text)


def json_text(value: Mapping[str, Any]) -> str:
    """Indented JSON with a last newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def shell_line(words: Iterable[str | int]) -> str:
    """Words as one line of a POSIX shell, each quoted where it needs to be."""
    return " ".join(shlex.quote(str(word)) for word in words)


def flags(arguments: Mapping[str, str | int | bool]) -> list[str]:
    """`--name value` words; True is the bare flag, False is left out."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False:
            words += [f"--{name}", str(value)]
    return words


def heredoc(path: str, text: str) -> str:
    """Shell that writes a text to a path, byte for byte. `path` is shell already: quoted, variables and all."""
    assert END_OF_FILE not in text
    return f"cat > {path} <<'{END_OF_FILE}'\n{text}{'' if text.endswith(chr(10)) else chr(10)}{END_OF_FILE}\n"
