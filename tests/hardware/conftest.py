"""The shipped rows once a session, and a database that holds them."""

from __future__ import annotations

from copy import deepcopy

import pytest

from hardware.columns import TABLES, Row, read_table
from hardware.loader import SHIPPED_DATA, catalog_load

SHIPPED = {table.name: read_table(SHIPPED_DATA, table) for table in TABLES}


@pytest.fixture
def shipped() -> dict[str, list[Row]]:
    """Rows of the test's own to spoil."""
    return deepcopy(SHIPPED)


@pytest.fixture
def loaded(db: None) -> None:
    catalog_load()
