"""Whose EasyBuild runs, and which terms a site has accepted."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from envmgr.backends.easybuild.choose_easybuild import user_home
from envmgr.backends.easybuild.installation import only_ours
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.lock_checks import licence_words
from envmgr.backends.easybuild.make_lock import require_own_easyconfigs
from envmgr.backends.easybuild.settings import accept_eula_for
from envmgr.catalog.site import load_site
from envmgr.errors import InputError
from tests.helpers.easybuild.workshop import AM_ROOT

only_root = pytest.mark.skipif(not AM_ROOT, reason="what root runs")


@only_root
def test_root_s_own_easybuild_is_not_in_somebody_else_s_home(tmp_path: Path) -> None:
    """As sudo may leave it in $HOME."""
    os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
    here = user_home("5.4.1", {"HOME": str(tmp_path)})
    assert here == user_home("5.4.1", {"XDG_CACHE_HOME": str(tmp_path)})
    assert here == Path(pwd.getpwuid(0).pw_dir) / ".cache/envmgr/easybuild/5.4.1"
    os.chown(tmp_path, 0, -1)
    tmp_path.chmod(0o777)
    assert not only_ours(tmp_path / "x")


@only_root
@pytest.mark.parametrize("link", ["root", "inside"])
def test_easyconfigs_by_a_link_into_a_folder_that_somebody_else_can_rename(tmp_path: Path, link: str) -> None:
    """What lies there is root's now; another folder of root's may lie there by the time that it is run."""
    stranger, own = tmp_path / "stranger", tmp_path / "own"
    (stranger / "kept").mkdir(parents=True)
    (stranger / "kept/x.eb").write_text("")
    os.chown(stranger, pwd.getpwnam("nobody").pw_uid, -1)
    own.mkdir()
    place = own if link == "inside" else tmp_path / "easyconfigs"
    (own / "more" if link == "inside" else place).symlink_to(stranger / "kept")
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path}/sw\nbackends: {{easybuild: {{easyconfigs: [{place}]}}}}\n")
    with pytest.raises(InputError) as caught:
        require_own_easyconfigs(load_site(tmp_path / "site.yaml", {}))
    assert caught.value.message == f"{stranger} belongs to nobody, neither to you nor to root"


@only_root
def test_hint_for_an_easyconfig_changes_nothing_behind_a_link(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir()
    shared.write_text("")
    shared.chmod(0o666)
    (own / "x.eb").symlink_to(shared)
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path}/sw\nbackends: {{easybuild: {{easyconfigs: [{own}]}}}}\n")
    with pytest.raises(InputError) as caught:
        require_own_easyconfigs(load_site(tmp_path / "site.yaml", {}))
    assert (caught.value.hint or "").startswith(f"name a build_user in site.yaml; or `namei -l {own}/x.eb`: a link ")


def test_accepted_eula_is_that_of_one_software_only() -> None:
    assert accept_eula_for(["CUDA", "a.b"]) == r"CUDA$,a\.b$"
    assert accept_eula_for([]) == ""


def test_words_of_a_lock_are_each_told_once() -> None:
    item = {"easyconfig": "x.eb", "origin": "catalog", "sha256": "0" * 64, "version": "1"}
    lock = EasyBuildLock.model_validate(
        {
            "recipe": "",
            "framework": "5.4.1",
            "easyblocks": "5.4.1",
            "easybuild_sha256": "0" * 64,
            "rpath": False,
            "accept_eula": ["CUDA"],
            "items": [
                {**item, "name": "CUDA", "eulas": ["CUDA"]},
                {**item, "name": "cuDNN"},
                {**item, "name": "cuTENSOR"},
                {**item, "name": "x", "sources": [{"name": "Miniconda3-latest.sh", "sha256": "0" * 64}]},
            ],
        }
    )
    assert licence_words(lock) == ("cuda-eula", "cudnn-eula", "cutensor-eula", "anaconda-terms")
