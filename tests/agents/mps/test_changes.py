from __future__ import annotations

from contextlib import closing

import pytest

from agents.mps.changes import Changes


@pytest.fixture
def changes():
    with closing(Changes()) as it:
        yield it


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "server.log").write_text("")
    return folder


def test_a_folder_has_changed_once_a_line_is_added_to_a_file_of_it(changes, folder):
    assert changes.take([str(folder)]) == {str(folder)}  # nobody watched it before
    assert changes.take([str(folder)]) == frozenset()
    with (folder / "server.log").open("a") as log:
        log.write("fault\n")
    assert changes.take([str(folder)]) == {str(folder)}
    assert changes.take([str(folder)]) == frozenset()


def test_a_file_that_is_rotated_is_a_change(changes, folder):
    changes.take([str(folder)])
    (folder / "server.log").rename(folder / "server.log.1")
    (folder / "server.log").write_text("")
    assert changes.take([str(folder)]) == {str(folder)}


def test_a_folder_that_comes_later_goes_and_comes_again_is_watched_again(changes, tmp_path):
    folder = tmp_path / "log"
    for _ in range(2):
        assert changes.take([str(folder)]) == {str(folder)}
        folder.mkdir()
        changes.take([str(folder)])
        assert changes.take([str(folder)]) == frozenset()
        folder.rmdir()


def test_where_the_kernel_watches_nothing_anything_may_have_changed(changes, folder):
    changes.close()
    for _ in range(2):
        assert changes.take([str(folder)]) == {str(folder)}
