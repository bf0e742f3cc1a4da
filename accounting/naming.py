"""Names people type, matched against catalog slugs: exact, then unambiguous short names, then the nearest ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

VENDOR_WORDS = frozenset({"nvidia", "amd", "intel", "google", "aws", "tesla", "geforce", "instinct"})
"""Words in front of product names that no slug carries."""
LONGEST_NAME = 128
"""Of what a client sends, only this much is compared and quoted."""
LIKENESS = 0.5
SLICE_WORD = "mig"
"""Slices of a GPU answer only to names that say so: "A100" never means a seventh of one."""


class NameLookupError(LookupError):
    """A name that stands for nothing, or for several things; `candidates` are slugs to choose from."""

    def __init__(self, *, kind: str, text: str, code: str, candidates: tuple[str, ...]) -> None:
        self.kind = kind
        self.text = text
        self.code = code
        """`unknown` or `ambiguous`."""
        self.candidates = candidates
        super().__init__(self.detail)

    @property
    def detail(self) -> str:
        """One sentence with the value and the way out."""
        listed = ", ".join(self.candidates)
        if self.code == "ambiguous":
            return f"{self.kind} {self.text!r} could be any of: {listed}; name one of them"
        hint = f"; nearest: {listed}" if listed else ""
        return f"{self.kind} {self.text!r} is not in the catalog{hint}"


def slug_of(*parts: str) -> str:
    """The contract's slug: lower case, every character outside a-z, 0-9 a dash, repeats collapsed."""
    return re.sub(r"-+", "-", re.sub(r"[^a-z0-9]", "-", "-".join(parts).lower()))


def nearest_names(text: str, names: Iterable[str], limit: int = 5) -> tuple[str, ...]:
    """Up to `limit` names most like `text`, best first; where nothing is much like it, the least unlike one."""
    wanted, known = text.strip().lower()[:LONGEST_NAME], sorted(names)
    near = difflib.get_close_matches(wanted, known, n=limit, cutoff=LIKENESS)
    return tuple(near or difflib.get_close_matches(wanted, known, n=1, cutoff=0.0))


def resolve_name(text: str, names: Iterable[str], *, kind: str) -> str:
    """The one name meant by `text`, whatever its case and separators.

    Raises NameLookupError (`unknown` with the nearest names, `ambiguous` with every candidate).
    """
    known = sorted(names)
    wanted = text.strip().lower()
    if wanted in known:
        return wanted
    wanted = wanted[:LONGEST_NAME]
    if not wanted.isascii():
        # A zero-width space or a look-alike letter is not a separator: what is read must be what is seen.
        raise NameLookupError(
            kind=kind, text=text[:LONGEST_NAME], code="unknown", candidates=nearest_names(wanted, known)
        )
    loose = [name for name in known if slug_of(name).strip("-") == slug_of(wanted).strip("-")]
    forms = {wanted, slug_of(wanted)}
    matches = loose or [name for name in known if any(_is_short_for(form, name) for form in forms)]
    if len(matches) == 1:
        return matches[0]
    code = "ambiguous" if matches else "unknown"
    candidates = tuple(matches) if matches else nearest_names(wanted, known)
    raise NameLookupError(kind=kind, text=text[:LONGEST_NAME], code=code, candidates=candidates)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9.]+", text) if word]


def _is_short_for(text: str, name: str) -> bool:
    """True where every word of `text` stands in `name` ("a100 80gb" in "a100-sxm4-80gb"), slices only on request."""
    wanted = [word for word in _words(text) if word not in VENDOR_WORDS]
    present = _words(name)
    if not wanted or (SLICE_WORD in present and SLICE_WORD not in wanted):
        return False
    return all(any(_same_word(word, other) for other in present) for word in wanted)


def _same_word(word: str, other: str) -> bool:
    """Equal, or a form factor without its generation (sxm for sxm5), or a size without its unit (80 for 80gb)."""
    if word == other:
        return True
    rest = other.removeprefix(word)
    if rest == other:
        return False
    return (word.isalpha() and rest.isdigit()) or (word.isdigit() and rest == "gb")
