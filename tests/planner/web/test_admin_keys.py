"""The admin asked for rows by what is no key: refusals on every table's pages, and no failure."""

from __future__ import annotations

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

NO_KEYS = ("abc", "9" * 40, "-1", "1_0")


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("operator"))
    return client


@pytest.mark.django_db
@pytest.mark.parametrize("table", sorted(model._meta.label_lower.replace(".", "_") for model in site._registry))
def test_what_is_no_key_is_refused(staff: Client, table: str) -> None:
    for page in ("change", "delete", "history"):
        for key in NO_KEYS:
            answer = staff.get(reverse(f"admin:{table}_{page}", args=(key,)))
            assert answer.status_code in (302, 403, 404), (page, key)
    for chosen in (*([key] for key in NO_KEYS), [""], ["1", "abc"]):
        asked = {"action": "delete_selected", "_selected_action": chosen, "index": "0"}
        answer = staff.post(reverse(f"admin:{table}_changelist"), asked)
        assert answer.status_code in (200, 302, 400, 403), chosen
    for query in ("?p=abc", "?o=abc", "?q=%27", "?id__exact=abc", "?id=" + "9" * 40, "?e=1"):
        assert staff.get(reverse(f"admin:{table}_changelist") + query).status_code in (200, 302, 400, 403), query
