"""The Celery application. Workers start with `celery -A planner.celery`; web processes reach it through `planner.queue`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "planner.settings")

app = Celery("planner")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Without this, a process that only imports tasks would bind them to Celery's own unconfigured default application.
app.set_default()
