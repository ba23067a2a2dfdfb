from __future__ import annotations

from packaging.tags import Tag

from envmgr.wheels.newest import _files, _is_other

HERE = frozenset({Tag("py3", "none", "any")})


def test_names_of_files_come_from_the_name_or_from_the_url() -> None:
    text = """
    [[packages]]
    name = "foo"
    sdist = { path = "/here/foo-2.0.tar.gz" }
    wheels = [{ url = "https://example.org/foo-2.0%2Bcu118-py3-none-any.whl" }, { name = "x\\u001b[1m.whl", url = "y" }]
    """
    assert [*_files(text)][:2] == ["foo-2.0.tar.gz", "foo-2.0+cu118-py3-none-any.whl"]
    assert all(name.isprintable() for name in _files(text))


def test_only_a_name_that_can_be_read_is_of_another_platform() -> None:
    names = ("foo-2.0+cu118-py3-none-any.whl", "foo-2.0-py3-none-win32.whl", "cut…", "")
    assert [_is_other(name, HERE) for name in names] == [False, True, False, False]
