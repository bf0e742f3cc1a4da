"""The addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path, re_path

from planner.api import docs
from planner.api.catalog import listing_view, row_view
from planner.api.estimates import EstimateMaxView, EstimateView
from planner.api.imports import ModelImportView
from planner.api.listings import LISTINGS
from planner.api.plans import PlanListView, PlanView

app_name = "api"

SLUG_PATH = r"(?P<slug>[A-Za-z0-9][A-Za-z0-9._-]{0,127})"

urlpatterns = [
    path("estimates/", EstimateView.as_view(), name="estimates"),
    path("estimates/max/", EstimateMaxView.as_view(), name="estimates-max"),
    path("plans/", PlanListView.as_view(), name="plans"),
    path("plans/<uuid:plan_id>/", PlanView.as_view(), name="plan"),
    path("models/import/", ModelImportView.as_view(), name="models-import"),
    path("schema/", docs.schema, name="schema"),
    path("docs/", docs.page, name="docs"),
]
for listing in LISTINGS:
    urlpatterns.append(path(f"{listing.name}/", listing_view(listing).as_view(), name=listing.name))
    if len(listing.key) == 1:
        door = row_view(listing).as_view()
        urlpatterns.append(re_path(rf"^{listing.name}/{SLUG_PATH}/\Z", door, name=f"{listing.name}-row"))
