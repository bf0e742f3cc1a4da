"""Environment values: typed, and loud when wrong."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from planner import env


def test_bool_reads_words_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, value in (("TRUE", True), ("on", True), ("0", False), ("No", False), ("", True)):
        monkeypatch.setenv("SWITCH", text)
        assert env.env_bool("SWITCH", default=True) is value


@pytest.mark.parametrize("text", ["maybe", "2", "truee"])
def test_bool_refuses_other_words_and_names_the_variable(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SWITCH", text)
    with pytest.raises(ImproperlyConfigured, match=f"SWITCH='{text}'"):
        env.env_bool("SWITCH", default=True)


@pytest.mark.parametrize(
    ("text", "words"), [("ten", "not a whole number"), ("1.5", "not a whole number"), ("0", "below 1")]
)
def test_int_refuses_and_names_the_variable(monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    monkeypatch.setenv("COUNT", text)
    with pytest.raises(ImproperlyConfigured, match=f"COUNT=.*{words}"):
        env.env_int("COUNT", default=5, least=1)


def test_text_and_list_without_default_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEEDED", raising=False)
    with pytest.raises(ImproperlyConfigured, match="NEEDED"):
        env.env_text("NEEDED")
    with pytest.raises(ImproperlyConfigured, match="NEEDED"):
        env.env_list("NEEDED")


def test_choice_lists_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORM", "yaml")
    with pytest.raises(ImproperlyConfigured, match="json, text"):
        env.env_choice("FORM", frozenset({"text", "json"}), default="json")


def test_secret_comes_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "key"))
    assert env.env_secret("KEY") == "s3cret"


def test_secret_file_that_is_missing_empty_or_doubled_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        env.env_secret("KEY")
    (tmp_path / "none").write_text("\n")
    with pytest.raises(ImproperlyConfigured, match="is empty"):
        env.env_secret("KEY")
    monkeypatch.setenv("KEY", "x")
    with pytest.raises(ImproperlyConfigured, match="Both KEY and KEY_FILE"):
        env.env_secret("KEY")
