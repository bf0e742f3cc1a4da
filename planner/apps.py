"""The planner application."""

from django.apps import AppConfig


class PlannerConfig(AppConfig):
    """Registers the deployment checks. Celery is left out on purpose: it would cost every command its import."""

    name = "planner"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from planner import checks  # noqa: F401, PLC0415 - registering needs the loaded app registry
        from planner.ops import log_lines  # noqa: F401, PLC0415 - as above
        from planner.plans import staleness  # noqa: PLC0415 - as above

        staleness.listen()
