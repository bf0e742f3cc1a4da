"""Spreadsheets that people upload and take away: read within bounds, and without a cell that would run as a formula."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

from import_export.formats.base_formats import CSV, XLSX

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 500
MAX_RATIO = 200
MAX_ROWS = 20_000


class UploadError(ValueError):
    """A file that is not read; its words go to the person who sent it."""


def check_size(data: bytes | str) -> None:
    """Raises UploadError for a file that is too large to be a catalog table."""
    if len(data) > MAX_FILE_BYTES:
        raise UploadError(f"The file has {len(data):,} bytes; at most {MAX_FILE_BYTES:,} are read. Split it.")


def check_rows(count: int) -> None:
    """Raises UploadError for more rows than an import takes at once."""
    if count > MAX_ROWS:
        raise UploadError(f"The file has {count:,} rows; at most {MAX_ROWS:,} are taken at once. Split it.")


def check_archive(data: bytes) -> None:
    """Raises UploadError for a zip (which an .xlsx is) that would unpack to far more than it says."""
    try:
        entries = zipfile.ZipFile(BytesIO(data)).infolist()
    except zipfile.BadZipFile:
        raise UploadError("This is no .xlsx file: it cannot be unpacked.") from None
    unpacked = sum(entry.file_size for entry in entries)
    packed = max(sum(entry.compress_size for entry in entries), 1)
    if len(entries) > MAX_ENTRIES or unpacked > MAX_UNPACKED_BYTES or unpacked / packed > MAX_RATIO:
        detail = f"{len(entries):,} parts, {unpacked:,} bytes unpacked, {unpacked / packed:,.0f} times the packed size"
        raise UploadError(f"This .xlsx unpacks to more than a catalog table can need ({detail}).")


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Begin a cell that a spreadsheet runs, or opens another program for (CWE-1236); the last four are the wide forms."""


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs: a text that looks like a formula gets an apostrophe, numbers stay numbers."""
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def plain_cell(value: Any) -> Any:
    """The cell as it was before `safe_cell`."""
    return value[1:] if isinstance(value, str) and value[:1] == "'" and value[1:].startswith(FORMULA) else value


def _each_cell(dataset: Any, change: Callable[[Any], Any]) -> Any:
    for _ in range(len(dataset)):
        dataset.append([change(cell) for cell in dataset.lpop()])
    return dataset


class BoundedCSV(CSV):  # type: ignore[misc]  # untyped
    def export_data(self, dataset: Any, **kwargs: Any) -> Any:
        return super().export_data(_each_cell(dataset, safe_cell), **kwargs)

    def create_dataset(self, in_stream: Any, **kwargs: Any) -> Any:
        check_size(in_stream)
        check_rows(in_stream.count("\n") if isinstance(in_stream, str) else in_stream.count(b"\n"))
        return _each_cell(super().create_dataset(in_stream, **kwargs), plain_cell)


class BoundedXLSX(XLSX):  # type: ignore[misc]  # untyped
    def export_data(self, dataset: Any, **kwargs: Any) -> Any:
        return super().export_data(_each_cell(dataset, safe_cell), **kwargs)

    def create_dataset(self, in_stream: Any) -> Any:
        check_size(in_stream)
        check_archive(in_stream)
        dataset = super().create_dataset(in_stream)
        check_rows(len(dataset))
        return _each_cell(dataset, plain_cell)
