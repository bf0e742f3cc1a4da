"""One module a format; each has a FORMAT. See planner.export.base for what a format may write."""
