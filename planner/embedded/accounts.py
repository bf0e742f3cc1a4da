"""The embedded instance's own people: an admin for the browser, and a team with one API token."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction
from rest_framework.exceptions import AuthenticationFailed

from planner.api.auth import BearerAuthentication
from planner.embedded.instance import private_file
from planner.teams.models import ApiToken, Role
from planner.teams.services import membership_set, team_embedded, token_create

ADMIN = "admin"
TOKEN_NAME = "embedded"
KEY_FILE = "api-key"


@dataclass(frozen=True)
class Access:
    """The key of this instance, and what was made just now and must be shown, because it cannot be shown again."""

    api_key: str
    new_password: str | None
    key_is_new: bool


def ensure_accounts(directory: Path) -> Access:
    """The admin, the team and its token, made where missing; the token's text stays in a private file."""
    path = directory / KEY_FILE
    with transaction.atomic():
        admin, password = _admin()
        team = team_embedded()
        membership_set(team=team, user=admin, role=Role.ADMIN)
        if path.exists() and _works(path.read_text(encoding="utf-8").strip()):
            return Access(path.read_text(encoding="utf-8").strip(), password, key_is_new=False)
        ApiToken.objects.filter(team=team, user=admin, name=TOKEN_NAME).delete()
        _, text = token_create(team=team, user=admin, name=TOKEN_NAME)
        path.unlink(missing_ok=True)
        private_file(path, text)
    return Access(text, password, key_is_new=True)


def _admin() -> tuple[User, str | None]:
    if existing := User.objects.filter(username=ADMIN).first():
        return existing, None
    password = secrets.token_urlsafe(12)
    return User.objects.create_superuser(ADMIN, password=password), password


def _works(key: str) -> bool:
    """Whether the kept key still opens the database at hand, which may have been replaced or restored."""
    try:
        BearerAuthentication().authenticate_credentials(key.encode())
    except AuthenticationFailed:
        return False
    return True
