"""The models of the planner application, each written in its own subpackage."""

from planner.plans.models import PlanRun
from planner.specs.models import ModelSpec
from planner.teams.models import ApiToken, Membership, Team

__all__ = ["ApiToken", "Membership", "ModelSpec", "PlanRun", "Team"]
