"""The text that convergence checks train on: sentences of a small grammar, made from a seed, owned by nobody."""

from __future__ import annotations

import random

PEOPLE = ("the miller", "a ferryman", "the old clockmaker", "her sister", "the keeper of the light", "a carpenter")
PLACES = ("by the river", "under the bridge", "in the harbour", "behind the mill", "on the hill road", "at the market")
VERBS = ("found", "carried", "mended", "counted", "traded", "hid", "painted", "weighed")
THINGS = ("a brass key", "three lanterns", "the broken oar", "a sack of barley", "seven blue stones", "the last map")
ENDINGS = (
    "and nobody asked why",
    "before the rain came",
    "while the bells were ringing",
    "though the day was short",
    "because the tide would not wait",
)
TURNS = ("Later", "That evening", "In the morning", "Before long", "Once more")


def text(characters: int, seed: int = 0) -> str:
    """So many characters of plain sentences with some structure to learn: agreement, order, returning names."""
    chance = random.Random(seed)  # noqa: S311 - a text, not a secret
    found: list[str] = []
    length = 0
    while length < characters:
        person = chance.choice(PEOPLE)
        first = (
            f"{person[0].upper()}{person[1:]} {chance.choice(VERBS)} {chance.choice(THINGS)} {chance.choice(PLACES)}"
        )
        second = f"{chance.choice(TURNS)}, {person} {chance.choice(VERBS)} it again, {chance.choice(ENDINGS)}"
        sentence = f"{first}. {second}. "
        found.append(sentence)
        length += len(sentence)
    return "".join(found)[:characters]
