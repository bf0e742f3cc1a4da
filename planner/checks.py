"""System checks of the deployment: settings that are each valid alone and wrong together."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register


@register
def check_visibility_timeout(**_: Any) -> list[CheckMessage]:
    """A broker that re-delivers before a task's hard limit would run live tasks twice."""
    visibility = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    if visibility > settings.CELERY_TASK_TIME_LIMIT:
        return []
    return [
        Error(
            f"The broker's visibility timeout ({visibility} s) is not above the task time limit "
            f"({settings.CELERY_TASK_TIME_LIMIT} s).",
            hint="Lower TASK_TIME_LIMIT_SECONDS or raise the visibility timeout.",
            id="planner.E001",
        )
    ]


@register(deploy=True)
def check_database_is_shared(**_: Any) -> list[CheckMessage]:
    """SQLite serves one machine only; workers elsewhere would each see their own empty database."""
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
        return []
    return [
        Warning(
            "The database is SQLite, which serves one machine only.",
            hint="Set DATABASE_URL to a PostgreSQL server before workers run on several machines.",
            id="planner.W001",
        )
    ]
