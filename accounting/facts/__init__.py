"""Rows of numbers with their sources: no logic beyond looking a row up."""
