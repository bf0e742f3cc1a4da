"""Jobs of the schedule run once for each period, however many schedules there are by mistake."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from planner.ops.models import PeriodicJob

SHARE = 0.8
"""Of a period: a job may come that much early, because messages do not travel at an even pace."""


def period_claim(name: str, seconds: float) -> bool:
    """True for the first call of a period, which thereby has the job; False for the others."""
    if PeriodicJob.objects.filter(name=name, ran_at__lte=Now() - timedelta(seconds=seconds * SHARE)).update(
        ran_at=Now()
    ):
        return True
    _, created = PeriodicJob.objects.get_or_create(name=name, defaults={"ran_at": timezone.now()})
    return created


def silent_seconds(name: str) -> float | None:
    """Seconds since the job last ran; None where it never did."""
    job = PeriodicJob.objects.filter(name=name).first()
    return None if job is None else max(0.0, (timezone.now() - job.ran_at).total_seconds())
