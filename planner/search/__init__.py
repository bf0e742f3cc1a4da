"""The search: every candidate of a plan request, counted, ranked and explained."""
