"""The people and the quick search, for every test below."""

from tests.people import caller, other_team, owner, person, quick_search, rings, stranger, team

__all__ = ["caller", "other_team", "owner", "person", "quick_search", "rings", "stranger", "team"]
