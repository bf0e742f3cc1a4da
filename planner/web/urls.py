"""The addresses of the dashboard."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from planner.web import catalog_views, compare_views, explain_views, export_views, team_views, validation_views, views

app_name = "web"

urlpatterns = [
    path("", views.plans, name="plans"),
    path("plans/new/", views.plan_new, name="plan-new"),
    path("plans/<uuid:plan_id>/", views.plan, name="plan"),
    path("plans/<uuid:plan_id>/progress/", views.plan_progress, name="plan-progress"),
    path("plans/<uuid:plan_id>/cancel/", views.plan_cancel, name="plan-cancel"),
    path("plans/<uuid:plan_id>/today/", compare_views.plan_today, name="plan-today"),
    path("plans/<uuid:plan_id>/options/<int:rank>/", views.plan_option, name="plan-option"),
    path("plans/<uuid:plan_id>/options/<int:rank>/explain/<slug:subject>/", explain_views.plan_explain, name="explain"),
    path("plans/<uuid:plan_id>/options/<int:rank>/exports/", export_views.plan_exports, name="exports-first"),
    path("plans/<uuid:plan_id>/options/<int:rank>/exports/<slug:key>/", export_views.plan_exports, name="exports"),
    path("plans/<uuid:plan_id>/options/<int:rank>/<slug:name>.<slug:kind>", export_views.plan_figure, name="figure"),
    path("calculator/", views.calculator, name="calculator"),
    path("calculator/explain/<slug:subject>/", explain_views.calculator_explain, name="calculator-explain"),
    path("compare/", compare_views.compare_page, name="compare"),
    path("hardware/", catalog_views.devices, name="hardware"),
    path("hardware/links/", catalog_views.links, name="links"),
    path("hardware/nodes/", catalog_views.nodes, name="nodes"),
    path("hardware/nodes/<str:slug>/", catalog_views.node, name="node"),
    path("hardware/pools/", team_views.pools, name="pools"),
    path("hardware/pools/new/", team_views.pool_new, name="pool-new"),
    path("hardware/pools/<str:slug>/", team_views.pool, name="pool"),
    path("hardware/<str:slug>/", catalog_views.device, name="device"),
    path("hardware/<str:slug>/prices.<slug:kind>", catalog_views.device_prices, name="device-prices"),
    path("models/", catalog_views.models, name="models"),
    path("models/import/", catalog_views.model_import, name="model-import"),
    path("models/reading/", catalog_views.model_reading, name="model-reading"),
    path("models/<str:slug>/", catalog_views.model, name="model"),
    path("optimizers/", catalog_views.optimizers, name="optimizers"),
    path("optimizers/<str:name>/", catalog_views.optimizer, name="optimizer"),
    path("validations/", validation_views.validations, name="validations"),
    path("validations/runs.<slug:kind>", validation_views.validations_figure, name="validations-figure"),
    path("validations/new/", validation_views.validation_new, name="validation-new"),
    path("validations/<uuid:validation_id>/", validation_views.validation, name="validation"),
    path("validations/<uuid:validation_id>/cancel/", validation_views.validation_end, name="validation-end"),
    path("team/", team_views.team, name="team"),
    path("team/switch/", team_views.team_switch, name="team-switch"),
    path("team/members/", team_views.member_set, name="member-set"),
    path("team/tokens/", team_views.token_new, name="token-new"),
    path("team/tokens/end/", team_views.token_end, name="token-end"),
    path("keys/", views.keys, name="keys"),
    path("keys/set/", views.keys_set, name="keys-set"),
    path("theme/", views.theme, name="theme"),
    path("favicon.ico", views.icon, name="icon"),
    path("login/", LoginView.as_view(template_name="planner/login.html"), name="login"),
    path("logout/", LogoutView.as_view(next_page="web:login"), name="logout"),
]
