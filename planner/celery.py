"""The Celery application. Workers start with `celery --app planner.celery`; web processes reach it through `queue`."""

import os
from typing import Any

from celery import Celery
from celery.platforms import set_pdeathsig  # type: ignore[attr-defined]  # the stubs lack it
from celery.signals import beat_embedded_init, setup_logging
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "planner.settings")

app = Celery("planner")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
# Without this, a process that only imports tasks would bind them to Celery's own unconfigured default application.
app.set_default()


@beat_embedded_init.connect
def end_with_the_worker(**_: Any) -> None:
    """The pool's processes ask the kernel to end with their worker; the schedule's process does not by itself."""
    set_pdeathsig("SIGKILL")


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """A receiver is enough: Celery then leaves alone what Django's LOGGING has set up."""
