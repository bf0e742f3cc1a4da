"""Who may do what: teams own everything, people belong to them with a role, tokens act for a person in one team."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from knox.models import AbstractAuthToken, AuthTokenManager

from planner.documents import SLUG

slug_validator = RegexValidator(SLUG, "Use a-z, 0-9, dot, dash and underscore, starting with a letter or digit.")


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    PLANNER = "planner", "Planner"
    CATALOG_EDITOR = "catalog-editor", "Catalog editor"
    ADMIN = "admin", "Admin"


class Scope(models.TextChoices):
    READ = "read", "Read"
    PLAN = "plan", "Read and plan"
    ADMIN = "admin", "All that the person may"


class Team(models.Model):  # type: ignore[django-manager-missing]  # tokens: knox has no types
    slug = models.CharField(max_length=128, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=200)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="teams")
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["team_id", "user_id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once_per_team"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id} as {self.role}"


class ApiToken(AbstractAuthToken):  # type: ignore[misc]  # knox has no types
    """A hashed bearer token: what it may do is the lesser of its scope and the person's role in its team."""

    # Knox's key is the digest, which a rotation replaces; this one names the token for as long as it lives.
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=10, choices=Scope, default=Scope.PLAN)
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[ApiToken]] = AuthTokenManager()

    class Meta:
        ordering: ClassVar = ["-created"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "user", "name"], name="api_token_named_once"),
            models.CheckConstraint(condition=models.Q(scope__in=Scope.values), name="api_token_scope_known"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.scope}) of team {self.team_id}"
