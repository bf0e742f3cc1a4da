"""Signatures in the form of Standard Webhooks: HMAC-SHA256 over "id.timestamp.body"."""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.utils.crypto import salted_hmac

from planner.webhooks.models import Webhook

PREFIX = "whsec_"


def secret_of(webhook: Webhook) -> str:
    """The endpoint's secret, shown when it is made or renewed. Another SECRET_KEY gives other secrets."""
    key = salted_hmac("planner.webhook", f"{webhook.pk}.{webhook.secret_salt}", algorithm="sha256").digest()
    return PREFIX + base64.b64encode(key).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the `Webhook-Signature` header."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
