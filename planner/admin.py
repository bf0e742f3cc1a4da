"""The admin pages of the planner application, each written in its own subpackage."""

from planner.specs.admin import ModelSpecAdmin

__all__ = ["ModelSpecAdmin"]
