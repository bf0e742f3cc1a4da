"""The admin pages of the planner application, each written in its own subpackage."""

from planner.pools.admin import PoolAdmin
from planner.specs.admin import ModelSpecAdmin
from planner.webhooks.admin import WebhookAdmin

__all__ = ["ModelSpecAdmin", "PoolAdmin", "WebhookAdmin"]
