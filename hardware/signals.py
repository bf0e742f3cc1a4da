"""What the catalog tells whoever listens; it knows nobody by name."""

from django.dispatch import Signal

catalog_edited = Signal()
"""Sent with `rows`, the edited rows, before the page says so. A receiver answers with a sentence for the editor."""
