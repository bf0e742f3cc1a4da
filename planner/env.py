"""Typed readers of environment values. A wrong value stops the start and names its variable."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def env_text(name: str, default: str | None = None) -> str:
    """The text of `name`; without a default an unset or empty variable is an error."""
    value = os.environ.get(name, "")
    if value:
        return value
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set. Set it in the environment (see .env.example).")
    return default


def env_bool(name: str, *, default: bool) -> bool:
    """True for 1/true/yes/on, False for 0/false/no/off, in any case."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a boolean. Use one of: true, false, 1, 0, yes, no, on, off.")


def env_int(name: str, *, default: int, least: int = 0) -> int:
    """A whole number, not below `least`."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={text!r} is not a whole number.") from None
    if value < least:
        raise ImproperlyConfigured(f"{name}={value} is below {least}, the smallest useful value.")
    return value


def env_list(name: str, default: list[str] | None = None) -> list[str]:
    """Comma-separated values; without a default an empty variable is an error."""
    values = [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]
    if values:
        return values
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set. Give one or more values separated by commas.")
    return default


def env_choice(name: str, choices: frozenset[str], *, default: str) -> str:
    """One of a closed list of words."""
    value = os.environ.get(name, "").strip().lower() or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r} is not known. Use one of: {', '.join(sorted(choices))}.")
    return value


def env_secret(name: str) -> str | None:
    """A secret from `name`, or from the file that `name`_FILE points to; None where neither is set."""
    value, file_name = os.environ.get(name, ""), os.environ.get(f"{name}_FILE", "")
    if value and file_name:
        raise ImproperlyConfigured(f"Both {name} and {name}_FILE are set. Keep one of them.")
    if not file_name:
        return value or None
    try:
        value = Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE={file_name!r} cannot be read: {error.strerror}.") from error
    if not value:
        raise ImproperlyConfigured(f"{name}_FILE={file_name!r} is empty.")
    return value
