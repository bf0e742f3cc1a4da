"""The addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path, re_path

from planner.api import docs
from planner.api.bulk import EstimateBulkView
from planner.api.catalog import listing_view, row_view
from planner.api.estimates import EstimateMaxView, EstimateView
from planner.api.exports import ExportView
from planner.api.imports import ModelImportView
from planner.api.listings import LISTINGS
from planner.api.plans import PlanCompareView, PlanListView, PlanRerunView, PlanView
from planner.api.pools import PoolListView, PoolView
from planner.api.teams import AuditView, MemberView, TeamListView, TeamView
from planner.api.tokens import TokenListView, TokenRotateView, TokenView
from planner.api.validations import CalibrationsView, StatisticsView, ValidationListView, ValidationView
from planner.api.webhooks import WebhookDeliveryListView, WebhookListView, WebhookSecretView, WebhookView

app_name = "api"

SLUG_PATH = r"(?P<slug>[A-Za-z0-9][A-Za-z0-9._-]{0,127})"
PERSON_PATH = r"(?P<person>[\w.@+-]{1,150})"
"""As Django writes user names."""

urlpatterns = [
    path("estimates/", EstimateView.as_view(), name="estimates"),
    path("estimates/max/", EstimateMaxView.as_view(), name="estimates-max"),
    path("estimates/bulk/", EstimateBulkView.as_view(), name="estimates-bulk"),
    path("plans/", PlanListView.as_view(), name="plans"),
    path("plans/compare/", PlanCompareView.as_view(), name="plans-compare"),
    path("plans/<uuid:plan_id>/", PlanView.as_view(), name="plan"),
    path("plans/<uuid:plan_id>/rerun/", PlanRerunView.as_view(), name="plan-rerun"),
    path("plans/<uuid:plan_id>/options/<int:rank>/exports/<slug:key>/", ExportView.as_view(), name="plan-export"),
    path("validations/", ValidationListView.as_view(), name="validations"),
    path("validations/statistics/", StatisticsView.as_view(), name="validation-statistics"),
    path("validations/calibrations/", CalibrationsView.as_view(), name="validation-calibrations"),
    path("validations/<uuid:validation_id>/", ValidationView.as_view(), name="validation"),
    path("models/import/", ModelImportView.as_view(), name="models-import"),
    path("pools/", PoolListView.as_view(), name="pools"),
    re_path(rf"^pools/{SLUG_PATH}/\Z", PoolView.as_view(), name="pool"),
    path("webhooks/", WebhookListView.as_view(), name="webhooks"),
    re_path(rf"^webhooks/{SLUG_PATH}/\Z", WebhookView.as_view(), name="webhook"),
    re_path(rf"^webhooks/{SLUG_PATH}/secret/\Z", WebhookSecretView.as_view(), name="webhook-secret"),
    re_path(rf"^webhooks/{SLUG_PATH}/deliveries/\Z", WebhookDeliveryListView.as_view(), name="webhook-deliveries"),
    path("tokens/", TokenListView.as_view(), name="tokens"),
    path("tokens/<uuid:token_id>/", TokenView.as_view(), name="token"),
    path("tokens/<uuid:token_id>/rotate/", TokenRotateView.as_view(), name="token-rotate"),
    path("teams/", TeamListView.as_view(), name="teams"),
    re_path(rf"^teams/{SLUG_PATH}/\Z", TeamView.as_view(), name="team"),
    re_path(rf"^teams/{SLUG_PATH}/members/{PERSON_PATH}/\Z", MemberView.as_view(), name="team-member"),
    path("audit/", AuditView.as_view(), name="audit"),
    path("schema/", docs.schema, name="schema"),
    path("docs/", docs.page, name="docs"),
]
for listing in LISTINGS:
    urlpatterns.append(path(f"{listing.name}/", listing_view(listing).as_view(), name=listing.name))
    if len(listing.key) == 1:
        door = row_view(listing).as_view()
        urlpatterns.append(re_path(rf"^{listing.name}/{SLUG_PATH}/\Z", door, name=f"{listing.name}-row"))
