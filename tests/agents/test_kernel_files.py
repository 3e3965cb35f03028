"""Files are read whole, whatever is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import kernel_files


def test_what_is_longer_than_one_read_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_text("line\n" * kernel_files.CHUNK_BYTES)
    assert kernel_files.read(str(file)) == file.read_text()


def test_a_byte_that_is_no_text_hides_nothing_around_it(tmp_path: Path) -> None:
    file = tmp_path / "name"
    file.write_bytes(b"1 (a\xffb) S")
    assert kernel_files.read(str(file)) == "1 (a\N{REPLACEMENT CHARACTER}b) S"


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert kernel_files.read(str(tmp_path / "empty")) == ""


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kernel_files.read(str(tmp_path / "missing"))
