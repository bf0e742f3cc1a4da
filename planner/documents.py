"""JSON in and out: read strictly and with bounds, so that what is passed on can be stored, compared and answered.

PostgreSQL refuses NUL and lone surrogates, JSON has no infinity, and a nested body can exhaust the stack: all of them
are found here, once, before any field is looked at.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

from planner.errors import Fault, InvalidRequest, TooLarge

MAX_BODY_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_MEMBERS = 10_000
"""Of one list or object: longer ones are named, not entered."""
MAX_TEXT = 8_192
MAX_NAME = 256
MAX_INTEGER = 2**63 - 1
MAX_FAULTS = 100
SLUG = re.compile(r"^[a-z0-9][a-z0-9._-]{0,127}\Z")
"""What may reach a path, a launch file or a shell: no name of another form is ever stored as a slug."""


class _NotJson(ValueError):
    """Valid for Python's reader, not for RFC 8259."""


def read_document(raw: bytes) -> object:
    """The JSON value in `raw`; every fault found on the way is raised at once as `InvalidRequest`."""
    if len(raw) > MAX_BODY_BYTES:
        raise TooLarge(f"the body has {len(raw):,} bytes; at most {MAX_BODY_BYTES:,} are read")
    try:
        document: object = json.loads(
            raw.decode("utf-8"),
            parse_int=_integer,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise InvalidRequest([Fault("", "too_deep", f"at most {MAX_DEPTH} levels of nesting are read")], 400) from None
    except UnicodeDecodeError as error:
        detail = f"the body is not UTF-8: byte {error.start} cannot be read"
        raise InvalidRequest([Fault("", "not_utf8", detail)], 400) from None
    except ValueError as error:
        raise InvalidRequest([Fault("", "not_json", f"the body is not JSON: {error}")], 400) from None
    faults = list(_faults(document))
    if faults:
        raise InvalidRequest(faults)
    return document


def write_document(answer: object) -> str:
    """The one text of an answer, in the order it was built; a number that JSON does not have is a fault of ours."""
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pointer_to(parent: str, name: str | int) -> str:
    """The RFC 6901 pointer of a member or element; the parent's own where the name is too odd to be repeated."""
    text = str(name)
    if len(text) > MAX_NAME or _unstorable(text):
        return parent
    return f"{parent}/{text.replace('~', '~0').replace('/', '~1')}"


def _integer(text: str) -> int | float:
    # Longer ones are out of every range, and Python itself refuses to read 4,300 digits.
    return int(text) if len(text) <= len(str(MAX_INTEGER)) + 1 else math.inf


def _refuse_constant(text: str) -> NoReturn:
    raise _NotJson(f"{text} is not a JSON number")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # In one pass: counting each name among all takes minutes of a body full of names.
        repeated, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _NotJson(f"the member {repeated[:80]!r} stands twice in one object")
    return found


def _unstorable(text: str) -> bool:
    return "\0" in text or any("\ud800" <= character <= "\udfff" for character in text)


def _faults(document: object) -> Iterator[Fault]:
    """Depth-first, iterative: the reader's recursion limit must not be the only bound."""
    waiting: list[tuple[str, object, int]] = [("", document, 0)]
    seen = found = 0
    while waiting and found < MAX_FAULTS:
        pointer, value, depth = waiting.pop()
        seen += 1
        if seen + len(waiting) > MAX_VALUES:
            yield Fault("", "too_many_values", f"at most {MAX_VALUES:,} values are read in one body")
            return
        if depth > MAX_DEPTH:
            yield Fault("", "too_deep", f"at most {MAX_DEPTH} levels of nesting are read")
            return
        for fault in (*_own_faults(pointer, value), *_name_faults(pointer, value)):
            found += 1
            yield fault
        waiting.extend((child, inner, depth + 1) for child, inner in _children(pointer, value))


def _too_long(value: object) -> bool:
    return isinstance(value, (list, dict)) and len(value) > MAX_MEMBERS


def _children(pointer: str, value: object) -> list[tuple[str, object]]:
    if _too_long(value):
        return []
    if isinstance(value, dict):
        return [(pointer_to(pointer, name), inner) for name, inner in reversed(value.items())]
    if isinstance(value, list):
        return [(f"{pointer}/{index}", value[index]) for index in range(len(value) - 1, -1, -1)]
    return []


def _name_faults(pointer: str, value: object) -> Iterator[Fault]:
    for name in value if isinstance(value, dict) and not _too_long(value) else ():
        if len(name) > MAX_NAME:
            yield Fault(pointer, "name_too_long", f"a member's name has {len(name):,} characters; at most {MAX_NAME}")
        elif _unstorable(name):
            yield Fault(pointer, "not_text", "a member's name holds a NUL or a lone surrogate")


def _own_faults(pointer: str, value: object) -> Iterator[Fault]:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            yield Fault(
                pointer, "text_too_long", f"the text has {len(value):,} characters; at most {MAX_TEXT:,} are read"
            )
        elif _unstorable(value):
            yield Fault(pointer, "not_text", "the text holds a NUL or a lone surrogate, which cannot be stored")
    elif isinstance(value, (list, dict)) and _too_long(value):
        yield Fault(pointer, "too_many_values", f"{len(value):,} entries; at most {MAX_MEMBERS:,} are read")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(pointer, "out_of_range", "the number is too large to be read")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
        yield Fault(pointer, "out_of_range", f"the number is beyond {MAX_INTEGER:,}")
