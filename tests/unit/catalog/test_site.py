from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envmgr.catalog import site as site_module
from envmgr.catalog.site import Site, embedded_prefix, find_site, load_site
from envmgr.catalog.site_file import SiteFile
from envmgr.errors import InputError
from envmgr.system.files import shipped
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE
from tests.helpers.wording import one_of, pydantic_says

NOBODY = 65534


@pytest.fixture(autouse=True)
def system_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /etc/envmgr/site.yaml, which this machine may have."""
    path = tmp_path / "etc" / "envmgr" / "site.yaml"
    monkeypatch.setattr(site_module, "SYSTEM_FILE", path)
    return path


def write(folder: Path, **fields: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.yaml"
    text = json.dumps({"prefix": "/shared/envmgr", **fields}, indent=1)
    path.write_text(text.replace("Infinity", ".inf").replace("NaN", ".nan"))
    return path


def load(folder: Path, **fields: Any) -> Site:
    return load_site(write(folder, **fields), {})


def faults(folder: Path, **fields: Any) -> list[str]:
    """`field: reason` of each fault of the file."""
    path = write(folder, **fields)
    with pytest.raises(InputError) as caught:
        load_site(path, {})
    assert caught.value.reference == "site-invalid"
    return [line.removeprefix(f"{path}:").partition(": ")[2] for line in caught.value.context]


# --- which site -------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path: Path, system_file: Path) -> dict[str, Path]:
    """A site file in every place where one is looked for."""
    return {
        "explicit": write(tmp_path / "explicit"),
        "environ": write(tmp_path / "environ"),
        "cwd": write(tmp_path / "work" / "deep"),
        "upwards": write(tmp_path / "work"),
        "system": write(system_file.parent),
    }


def test_find_site_looks_in_order(places: dict[str, Path], tmp_path: Path) -> None:
    environ = {"ENVMGR_SITE": str(places["environ"])}
    cwd = tmp_path / "work" / "deep" / "below"
    cwd.mkdir()
    assert find_site(places["explicit"], environ, cwd) == places["explicit"]
    assert find_site(None, environ, cwd) == places["environ"]
    assert find_site(None, {"ENVMGR_SITE": ""}, cwd) == places["cwd"]
    places["cwd"].unlink()
    assert find_site(None, {}, cwd) == places["upwards"]
    places["upwards"].unlink()
    assert find_site(None, {}, cwd) == places["system"]
    places["system"].unlink()
    assert find_site(None, {}, cwd) is None


def test_find_site_takes_the_folder_for_its_file(places: dict[str, Path], tmp_path: Path) -> None:
    assert find_site(tmp_path / "explicit", {}, tmp_path) == places["explicit"]
    assert find_site(None, {"ENVMGR_SITE": str(tmp_path / "environ")}, tmp_path) == places["environ"]


def test_find_site_makes_a_named_file_absolute(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "explicit")
    (tmp_path / "link.yaml").symlink_to("explicit/site.yaml")
    assert find_site(Path("site.yaml"), {}, tmp_path) == places["explicit"]
    assert find_site(Path("../link.yaml"), {}, tmp_path) == places["explicit"]


@pytest.mark.parametrize("by", ["--site", "$ENVMGR_SITE"])
def test_find_site_never_falls_back_when_the_named_file_is_missing(
    places: dict[str, Path], tmp_path: Path, by: str
) -> None:
    missing = tmp_path / "no.yaml"
    with pytest.raises(InputError) as caught:
        find_site(missing if by == "--site" else None, {"ENVMGR_SITE": str(missing)}, tmp_path / "work")
    assert caught.value.render() == f"error[site-missing]: {missing} does not exist\n  named by {by}"


def test_find_site_is_not_misled_by_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "work" / "site.yaml").mkdir(parents=True)
    assert find_site(None, {}, tmp_path / "work") is None


# --- who may say it ---------------------------------------------------------------------------------------------------


def untrusted(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_site(path, {})
    assert caught.value.reference == "site-untrusted"
    return caught.value


def belongs_to_another(path: Path, monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """Root gives the file away; anybody else becomes, for this process, somebody else."""
    if os.geteuid() == 0:
        os.chown(path, uid, -1)
    else:
        mine = path.stat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


def test_load_site_refuses_a_file_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    belongs_to_another(path, monkeypatch, NOBODY)
    owner = pwd.getpwuid(path.stat().st_uid).pw_name
    assert untrusted(path).render() == (
        f"error[site-untrusted]: {path} belongs to {owner}, neither to you nor to root\n"
        "  a site file decides what is written where and what runs\n"
        "\n"
        "hint: check it, then `chown` it, or name another one with --site"
    )


def test_load_site_names_the_number_of_an_owner_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    belongs_to_another(path, monkeypatch, 61234)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert untrusted(path).message == f"{path} belongs to uid {path.stat().st_uid}, neither to you nor to root"


def test_load_site_accepts_a_file_of_root_for_everybody() -> None:
    """As `nobody`, where we may change to it; else as ourselves, with our own file."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from envmgr.catalog.site import load_site\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "print(load_site(Path(sys.argv[1]), {}).prefix)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are private
        Path(folder).chmod(0o755)
        path = write(Path(folder))
        done = subprocess.run(
            [sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE
        )
    assert (done.stdout, done.stderr) == ("/shared/envmgr\n", "")


@pytest.mark.parametrize("mode", [0o646, 0o666, 0o602])
def test_load_site_refuses_a_file_that_everybody_can_write(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path)
    path.chmod(mode)
    assert untrusted(path).render() == (
        f"error[site-untrusted]: {path} can be written by everyone\n\nhint: chmod o-w {path}"
    )


def test_site_by_a_link_is_not_closed_by_its_name(tmp_path: Path) -> None:
    """It could lead to /dev/null."""
    target = write(tmp_path)
    target.chmod(0o666)
    (tmp_path / "link").symlink_to(target)
    assert (untrusted(tmp_path / "link").hint or "").startswith(f"`namei -l {tmp_path}/link`: a link ")


def test_site_by_a_link_in_a_strangers_folder_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogs that it names by their place would be those that lie beside the link."""
    own = write(tmp_path)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "site.yaml").symlink_to(own)
    found = find_site(None, {}, stranger)
    assert found == stranger / "site.yaml"
    belongs_to_another(stranger, monkeypatch, NOBODY)
    message = untrusted(found).message
    if os.geteuid() == 0:
        assert message == (f"{found} could be another user's: {stranger} belongs to nobody, neither to you nor to root")


def test_site_by_a_link_in_our_own_folder_is_as_before(tmp_path: Path) -> None:
    own = write(tmp_path)
    (tmp_path / "other").mkdir()
    link = tmp_path / "other/site.yaml"
    link.symlink_to("../site.yaml")
    assert load_site(link, {}).prefix == load_site(own, {}).prefix


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give a link away")
def test_site_by_a_link_that_a_stranger_made_is_not_ours(tmp_path: Path) -> None:
    """Where everybody may put one, as in /tmp."""
    own = write(tmp_path)
    (tmp_path / "door").mkdir()
    (tmp_path / "door").chmod(0o1777)
    link = tmp_path / "door/site.yaml"
    link.symlink_to(own)
    assert load_site(link, {}).prefix == Path("/shared/envmgr")
    os.chown(link, NOBODY, -1, follow_symlinks=False)
    assert untrusted(link).message == (
        f"{link} could be another user's: {link} belongs to nobody, neither to you nor to root"
    )


def test_site_that_has_another_name_where_everybody_may_put_one_is_not_ours(tmp_path: Path) -> None:
    own = write(tmp_path)
    (tmp_path / "door").mkdir()
    (tmp_path / "door").chmod(0o1777)
    there = tmp_path / "door/site.yaml"
    there.hardlink_to(own)
    assert untrusted(there).message == f"{there} has another name, and lies where everyone can put one"
    own.unlink()
    assert load_site(there, {}).prefix == Path("/shared/envmgr")


def test_site_in_a_folder_where_everybody_may_put_another_is_not_ours(tmp_path: Path) -> None:
    path = write(tmp_path)
    tmp_path.chmod(0o777)
    assert untrusted(path).message == f"{path} could be another user's: {tmp_path} can be written by everyone"
    tmp_path.chmod(0o755)
    assert load_site(path, {}).prefix == Path("/shared/envmgr")  # as the hint says


@pytest.mark.parametrize("call", ["stat", "open"])
@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give a file away")
def test_site_that_changes_hands_while_it_is_opened_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It is a stranger's once it was looked at: what is read must be what was looked at."""
    path = write(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text("prefix: /strangers\n")
    os.chown(other, NOBODY, -1)
    real = getattr(os, call)

    def swapping(name: object, *rest: object, **more: object) -> object:
        found = real(name, *rest, **more)
        if str(name).endswith("site.yaml") and other.exists():
            other.replace(path)
        return found

    monkeypatch.setattr(os, call, swapping)
    if call == "stat":
        untrusted(path)
    else:  # what was opened is what was looked at
        assert load_site(path, {}).prefix == Path("/shared/envmgr")
    assert not other.exists()


def test_site_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "site.yaml")
    assert find_site(None, {}, tmp_path) != tmp_path / "site.yaml"
    with pytest.raises(InputError) as caught:
        load_site(tmp_path / "site.yaml", {})
    assert caught.value.reference == "file-irregular"


def test_load_site_accepts_a_file_that_a_group_can_write(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.chmod(0o664)
    assert load_site(path, {}).prefix == Path("/shared/envmgr")


def test_load_site_tells_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_site(tmp_path / "site.yaml", {})
    assert (caught.value.reference, caught.value.message) == ("site-missing", f"cannot read {tmp_path / 'site.yaml'}")


# --- what it says -----------------------------------------------------------------------------------------------------


def test_load_site_of_one_field_has_defaults(tmp_path: Path) -> None:
    path = write(tmp_path)
    site = load_site(path, {})
    assert (site.source, site.name, site.prefix) == (path, "site", Path("/shared/envmgr"))
    assert site.catalogs == (shipped("recipes"),)
    assert site.shipped_catalog == shipped("recipes")
    assert site.backends == {}
    assert (site.cpu_level, site.build_user, site.groups) == ("x86-64-v2", None, {})
    assert (site.policies.mask, site.policies.driver_gate, site.policies.user_site) == (0o022, "warn", False)


def test_load_site_makes_catalogs_absolute_and_keeps_the_shipped_one_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir("/")
    site = load(tmp_path / "etc", catalogs=["recipes", "../shared", "/abs/catalog", "~/mine"])
    assert site.catalogs == (
        tmp_path / "etc" / "recipes",
        tmp_path / "shared",
        Path("/abs/catalog"),
        Path("/home/me/mine"),
        shipped("recipes"),
    )


def test_load_site_makes_folder_mirrors_uris_and_keeps_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    mirrors = ["mirror/x", "/mnt/a b", "~/m", "https://mirror.example.org/x/", "file:///srv/x"]
    site = load(tmp_path, sources={"mirrors": mirrors})
    assert site.absolute_mirrors(mirrors) == (*site.sources.mirrors[:3], *mirrors[3:])
    assert site.sources.mirrors == (
        f"file://{tmp_path}/mirror/x",
        "file:///mnt/a%20b",
        "file:///home/me/m",
        "https://mirror.example.org/x",
        "file:///srv/x",
    )


@pytest.mark.parametrize(
    "fields",
    [{"catalogs": ["~no-such-user/recipes"]}, {"sources": {"mirrors": ["~no-such-user/recipes"]}}],
    ids=["catalog", "mirror"],
)
def test_load_site_tells_the_home_of_a_user_that_does_not_exist(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = write(tmp_path, **fields)
    with pytest.raises(InputError) as caught:
        load_site(path, {})
    assert caught.value.render() == (
        "error[site-invalid]: `~no-such-user/recipes` names the home of a user that does not exist here"
    )


SHELL = "must be without spaces, colons, quotes and shell characters: it goes into PATH and #! lines"
ABSOLUTE = "must be an absolute path: the same on every node"
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown-field": ({"prefx": 1}, ["prefx: unknown field"]),
    "newer-schema": ({"schema": 2}, [f"schema: {pydantic_says('literal_error', expected='1')}"]),
    "prefix-relative": ({"prefix": "envmgr"}, [f"prefix: {ABSOLUTE}"]),
    "prefix-empty": ({"prefix": ""}, [f"prefix: {ABSOLUTE}"]),
    "prefix-root": ({"prefix": "/"}, ["prefix: must not be /"]),
    "prefix-network": ({"prefix": "//host/envmgr"}, ["prefix: must begin with one /"]),
    "prefix-upwards": ({"prefix": "/opt/../etc"}, ["prefix: must not contain `..`"]),
    **{
        f"prefix-{ord(c)}": ({"prefix": f"/opt/a{c}b"}, [f"prefix: {SHELL}"])
        for c in " \t\n:'\"\\$`;&|<>(){}*?[]!#~%äß"
    },
    "group-empty": ({"groups": {"gpu": {}}}, ["groups.gpu: give exactly one of nodes, slurm, ansible"]),
    "group-two": (
        {"groups": {"gpu": {"nodes": "c[1-3]", "slurm": "gpu"}}},
        ["groups.gpu: give exactly one of nodes, slurm, ansible"],
    ),
    "sources-mirror-scheme": (
        {"sources": {"mirrors": ["ftp://x"]}},
        ["sources.mirrors: `ftp://x` is neither an http(s):// or file:// URL nor a folder"],
    ),
    "backends-list": ({"backends": ["conda"]}, ["backends: must be a mapping"]),
    "backend-text": ({"backends": {"conda": "yes"}}, ["backends.conda: must be a mapping"]),
    "key-of-no-backend": ({"channels": {}}, ["channels: unknown field"]),
    "transport-via": ({"transport": {"via": "rsh"}}, [f"transport.via: {one_of('ssh', 'slurm', 'both')}"]),
    "too-few": (
        {"transport": {"fanout": 0, "connect_timeout": 0}, "policies": {"keep_generations": 0}},
        [
            f"transport.fanout: {pydantic_says('greater_than_equal', ge=1)}",
            f"transport.connect_timeout: {pydantic_says('greater_than', gt=0)}",
            f"policies.keep_generations: {pydantic_says('greater_than_equal', ge=1)}",
        ],
    ),
    "times": (
        {
            "transport": {"connect_timeout": float("inf"), "deadline": 1e300},
            "mount": {"attribute_cache": float("nan")},
            "signing": {"allowed_signers": "a", "expires_days": float("inf")},
            "policies": {"keep_days": 1e300, "stall_timeout": float("nan")},
        },
        [
            f"transport.connect_timeout: {pydantic_says('finite_number')}",
            f"transport.deadline: {pydantic_says('less_than_equal', le=2592000)}",
            f"mount.attribute_cache: {pydantic_says('finite_number')}",
            f"signing.expires_days: {pydantic_says('finite_number')}",
            f"policies.keep_days: {pydantic_says('less_than_equal', le=36500)}",
            f"policies.stall_timeout: {pydantic_says('finite_number')}",
        ],
    ),
    "sizes": (
        {"audit": {"min_inodes": float("inf")}, "policies": {"min_free": 1 << 99, "download_retries": 1 << 99}},
        [
            f"audit.min_inodes: {pydantic_says('finite_number')}",
            f"policies.min_free: {pydantic_says('less_than_equal', le=1 << 60)}",
            f"policies.download_retries: {pydantic_says('less_than_equal', le=100)}",
        ],
    ),
    "cpu-level": (
        {"cpu_level": "native"},
        [f"cpu_level: {one_of('x86-64', 'x86-64-v2', 'x86-64-v3', 'x86-64-v4', 'aarch64')}"],
    ),
    "umask-newline": (
        {"policies": {"umask": "022\n"}},
        [f"policies.umask: {pydantic_says('string_pattern_mismatch', pattern='^0?[0-7]{3}$')}"],
    ),
    "umask-number": ({"policies": {"umask": 18}}, ["policies.umask: must be text: put it in quotes"]),
    "gate": ({"policies": {"driver_gate": "off"}}, [f"policies.driver_gate: {one_of('warn', 'refuse')}"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_site_fault_is_told_with_its_field(tmp_path: Path, case: str) -> None:
    fields, expected = FAULTS[case]
    assert faults(tmp_path, **fields) == expected


def test_site_without_prefix_is_told(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("schema: 1\nname: x\n")
    with pytest.raises(InputError) as caught:
        load_site(path, {})
    assert caught.value.render() == (
        f"error[site-invalid]: {path} has 1 fault\n  {path}:1: prefix: {pydantic_says('missing')}"
    )


@given(st.text(max_size=12))
def test_prefix_that_is_accepted_is_safe_in_every_place(tail: str) -> None:
    try:
        prefix = SiteFile(prefix=Path("/" + tail.replace("\0", ""))).prefix
    except ValidationError:
        return
    text = str(prefix)
    assert prefix.is_absolute()
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set(" \t\n:'\"\\$`;&|<>(){}*?[]!#~%")
    assert "//" not in text
    assert len(prefix.parts) > 1
    assert ".." not in prefix.parts


@pytest.mark.parametrize(("umask", "mask"), [("022", 0o022), ("0027", 0o027), ("077", 0o077), ("000", 0)])
def test_policies_mask_is_the_umask_as_a_number(tmp_path: Path, umask: str, mask: int) -> None:
    assert load(tmp_path, policies={"umask": umask}).policies.mask == mask


# --- without a site ---------------------------------------------------------------------------------------------------


def test_load_site_without_a_file_is_the_embedded_site(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    site = load_site(None, environ)
    assert (site.source, site.name, site.prefix) == (None, "embedded", embedded_prefix(environ))
    assert site.catalogs == (shipped("recipes"),)
    assert site.backends == {}


def test_embedded_prefix_of_root_is_below_opt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert embedded_prefix({"HOME": "/root", "XDG_DATA_HOME": "/data"}) == Path("/opt/envmgr")


@pytest.mark.parametrize(
    ("environ", "prefix"),
    [
        ({"HOME": "/home/u", "XDG_DATA_HOME": "/data/u"}, "/data/u/envmgr"),
        ({"HOME": "/home/u"}, "/home/u/.local/share/envmgr"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": ""}, "/home/u/.local/share/envmgr"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "relative"}, "/home/u/.local/share/envmgr"),
    ],
)
def test_embedded_prefix_of_a_user_is_in_the_data_folder(
    environ: dict[str, str], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert embedded_prefix(environ) == Path(prefix)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_embedded_prefix_without_home_asks_the_account(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert embedded_prefix(environ) == Path(pwd.getpwuid(NOBODY).pw_dir, ".local/share/envmgr")


def test_load_site_tells_a_home_that_cannot_be_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with pytest.raises(InputError) as caught:
        load_site(None, {"HOME": "/home/my user"})
    assert caught.value.render() == (
        "error[site-invalid]: /home/my user/.local/share/envmgr cannot be the prefix\n"
        f"  it {SHELL}\n"
        "\n"
        "hint: name another: `envmgr init --prefix`"
    )


def test_catalogs_may_say_that_they_must_be_committed(tmp_path: Path) -> None:
    site = load(tmp_path, catalogs={"folders": ["recipes"], "require_commit": True})
    assert (site.catalogs[0], site.require_commit) == (tmp_path / "recipes", True)
    with pytest.raises(InputError) as told:
        load(tmp_path, catalogs={"folder": ["recipes"]})
    assert "must be a list of folders, or have only `folders` and `require_commit`" in "".join(told.value.context)
