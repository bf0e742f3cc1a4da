"""ModelSpec: a model people train by name, shipped or imported by a team from a config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from simple_history.models import HistoricalRecords

from accounting.model import ConfigError, model_from_architecture, model_from_config
from planner.teams.models import Team, slug_validator

if TYPE_CHECKING:
    from accounting.model import Model


class Origin(models.TextChoices):
    SHIPPED = "shipped", "Shipped with the product"
    EDITED = "edited", "Edited here"
    IMPORTED = "imported", "Imported from a config.json"


class Confidence(models.TextChoices):
    HIGH = "high", "High"
    MEDIUM = "medium", "Medium"
    LOW = "low", "Low"


class ModelSpec(models.Model):
    slug = models.CharField(max_length=128, validators=[slug_validator])
    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="models",
        help_text="The team it belongs to; empty: everybody sees it.",
    )
    name = models.CharField(max_length=128)
    family = models.CharField(max_length=80, blank=True)
    aliases = models.JSONField(default=list, blank=True, help_text='Other names it answers to: ["mistral-7b"].')
    config = models.JSONField(null=True, blank=True, help_text="The config.json it is read from, where there is one.")
    architecture = models.JSONField(
        null=True, blank=True, help_text="The contract's architecture fields, read where there is no config."
    )
    exact_parameters = models.BigIntegerField(help_text="Counted on the library's own class, tied weights once.")
    published_parameters = models.BigIntegerField(null=True, blank=True, help_text="What its makers say.")
    active_parameters_per_token = models.BigIntegerField(null=True, blank=True, help_text="For a mixture of experts.")
    facts = models.JSONField(default=dict, blank=True, help_text="How it was counted and how far the counts agree.")
    source = models.CharField(max_length=300)
    source_date = models.DateField(null=True, blank=True)
    checked_date = models.DateField(null=True, blank=True)
    confidence = models.CharField(max_length=10, choices=Confidence)
    note = models.TextField(blank=True)
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.EDITED, editable=False)
    retired = models.BooleanField(default=False, help_text="No longer offered to new requests.")
    changed_at = models.DateTimeField(auto_now=True)
    history = HistoricalRecords()

    class Meta:
        ordering: ClassVar = ["slug"]
        # Answers "has any of them changed?" without a look at the rows, which hold whole config files.
        indexes: ClassVar = [models.Index(fields=["team", "retired", "changed_at"], name="model_spec_fresh")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                name="model_spec_public_slug",
                fields=["slug"],
                condition=Q(team__isnull=True),
                violation_error_message="A model everybody sees has this slug already.",
            ),
            models.UniqueConstraint(
                name="model_spec_team_slug",
                fields=["team", "slug"],
                condition=Q(team__isnull=False),
                violation_error_message="Your team has a model of this slug already.",
            ),
            models.CheckConstraint(
                name="model_spec_described",
                condition=Q(config__isnull=False) | Q(architecture__isnull=False),
                violation_error_message="Give a config.json or the architecture fields.",
            ),
            models.CheckConstraint(
                name="model_spec_parameters_positive",
                condition=Q(exact_parameters__gt=0),
                violation_error_message="A model has at least 1 parameter.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def model(self) -> Model:
        """The model as the core counts it. Raises ConfigError for a description that cannot be read."""
        if self.config is not None:
            return model_from_config(self.config, slug=self.slug)
        return model_from_architecture(self.architecture or {}, slug=self.slug)

    def request_form(self) -> Any:
        """What stands for it in an estimate request."""
        return self.slug

    def clean(self) -> None:
        super().clean()
        self.slug = self.slug.lower()
        field = "config" if self.config is not None else "architecture"
        if getattr(self, field) is None:
            return  # the constraint says it
        try:
            counted = self.model().parameters
        except ConfigError as error:
            messages = [f"{fault.pointer or '/'}: {fault.detail}" for fault in error.faults]
            raise ValidationError({field: messages}) from None
        if counted != self.exact_parameters:
            detail = f"the description counts {counted:,} parameters: enter {counted} or correct the description"
            raise ValidationError({"exact_parameters": detail})
