"""The addresses of the dashboard."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from planner.web import views

app_name = "web"

urlpatterns = [
    path("", views.plans, name="plans"),
    path("plans/new/", views.plan_new, name="plan-new"),
    path("plans/<uuid:plan_id>/", views.plan, name="plan"),
    path("plans/<uuid:plan_id>/progress/", views.plan_progress, name="plan-progress"),
    path("plans/<uuid:plan_id>/cancel/", views.plan_cancel, name="plan-cancel"),
    path("plans/<uuid:plan_id>/options/<int:rank>/", views.plan_option, name="plan-option"),
    path("calculator/", views.calculator, name="calculator"),
    path("keys/", views.keys, name="keys"),
    path("theme/", views.theme, name="theme"),
    path("login/", LoginView.as_view(template_name="planner/login.html"), name="login"),
    path("logout/", LogoutView.as_view(next_page="web:login"), name="logout"),
]
