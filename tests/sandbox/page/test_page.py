"""The page of real publishes: what it says, that it goes back with a rollback, its copy, its bad days."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, RUNS, complete, locked
from tests.helpers.small_disk import small_in
from tests.helpers.standin.channel import Channel

PAGE = {"catalog.json", "feed.xml", "index.html"}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    """Generation 1 has hello/1.0; 2 has hello/2.0, too, which is the default and loads it; 3 has hello/1.0 deprecated."""
    made = Sandbox(tmp_path_factory.mktemp("page"), str(channel.folder))
    made.write_site()
    locked(made, "hello/1.0", HELLO, tests=RUNS)
    made.ok("build", "hello/1.0")
    locked(made, "hello/2.0", [*HELLO, "shared"], depends=["base/1"], default=True, requires={"nvidia_driver": "525.60", "compute_capability": ["8.0"]})  # fmt: skip
    locked(made, "base/1", ["shared"])
    made.ok("build", "hello/2.0", "base/1")
    locked(made, "hello/1.0", HELLO, tests=RUNS, deprecated={"message": "use hello/2.0", "date": "2027-01-31"})
    made.ok("build", "hello/1.0")
    yield made
    made.clear()


def page(box: Sandbox, number: int | None = None) -> Any:
    folder = box.prefix / "current" if number is None else box.prefix / f"generations/{number:04d}"
    return json.loads((folder / "www/catalog.json").read_text())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copied(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(folder).items() if name != "status.json"}


@pytest.mark.always
def test_each_publish_writes_the_page_of_its_generation(box: Sandbox) -> None:
    catalog = page(box)
    found = {each["entry"]: each for each in catalog["entries"]}
    assert (catalog["generation"], catalog["site"], [*found]) == (3, "sandbox", ["base/1", "hello/1.0", "hello/2.0"])
    assert {name: each["since"]["generation"] for name, each in found.items()} == {
        "base/1": 2,
        "hello/1.0": 1,
        "hello/2.0": 2,
    }
    assert found["base/1"]["dependents"] == ["hello/2.0"]
    assert found["hello/1.0"]["deprecated"] == {"message": "use hello/2.0", "until": "2027-01-31"}
    assert (found["hello/2.0"]["default"], found["hello/2.0"]["gpu"]["codes"]) == (True, ["8.0"])
    own = catalog["parts"][found["hello/2.0"]["parts"][0]]
    assert (own["backend"], sorted(own["packages"])) == ("conda", ["hello-prefix", "shared"])
    lock = next(each for each in own["locks"] if each.endswith("conda-lock.yml"))
    assert (box.prefix / "current/www" / lock).read_bytes() == (
        box.root / "recipes/hello/2.0/conda-lock.yml"
    ).read_bytes()
    assert [(each["number"], each["added"], [c["entry"] for c in each["changed"]]) for each in catalog["news"]] == [
        (3, [], ["hello/1.0"]), (2, ["base/1", "hello/2.0"], []), (1, ["hello/1.0"], []),
    ]  # fmt: skip
    assert catalog["news"][0]["changed"][0]["change"] == "module"
    for name, each in found.items():  # what a scanner reads, and the pages before have the same
        sbom = (box.prefix / "current/www" / each["sbom"]).read_text()
        assert sbom == box.ok("sbom", name, "--format", "cyclonedx").stdout
    text = (box.prefix / "current/www/index.html").read_text()
    assert f'href="{found["hello/2.0"]["sbom"]}"' in text
    assert "Deprecated, goes on 2027-01-31: use hello/2.0" in text
    complete(box, 3)
    assert "0 differ from their record" in box.ok("verify", "--all").stdout


def test_the_job_of_the_page_is_a_job_that_a_shell_reads(box: Sandbox) -> None:
    job = next(each["job"] for each in page(box)["entries"] if each["entry"] == "hello/2.0")
    assert "#SBATCH --gres=gpu:1\n" in job
    assert "module load hello/2.0 || exit\n" in job
    assert subprocess.run(["bash", "-n"], input=job, text=True, check=False).returncode == 0


def test_a_changed_page_is_a_finding_of_verify(box: Sandbox) -> None:
    path = box.prefix / "generations/0001/www/index.html"
    before = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(before + b"<script>")
    done = box.run("verify", "--generation", "1")
    path.write_bytes(before)
    path.chmod(0o444)
    assert (done.code, "generations/0001/www/index.html: sha256 changed" in done.stdout) == (1, True), done.stdout
    assert box.ok("verify", "--generation", "1")


def test_a_page_that_lost_a_file_is_told(box: Sandbox) -> None:
    path = box.prefix / "generations/0001/www/feed.xml"
    path.parent.chmod(0o755)
    path.rename(path.with_name("away"))
    done = box.run("page", "--generation", "1", "--output", "copy")
    path.with_name("away").rename(path)
    path.parent.chmod(0o555)
    assert (done.code, "error[generation-damaged]" in done.stderr) == (3, True), done.stderr
    assert not (box.root / "copy").exists()


def test_a_rollback_takes_the_page_back(box: Sandbox) -> None:
    box.ok("rollback", "1")
    assert page(box)["generation"] == 1
    box.ok("rollback", "3")
    assert page(box)["generation"] == 3


def test_a_copy_takes_the_place_of_an_earlier_one_and_of_nothing_else(box: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "www"
    dry = box.ok("page", "--output", str(target), "--dry-run").stdout
    assert dry.splitlines()[-1] == f"would copy it to {target}"
    assert not target.exists()
    old = os.umask(0o077)
    box.ok("page", "--output", str(target), "--generation", "1")
    os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (target, *target.rglob("*")) if path.is_dir()} == {0o755}
    assert copied(target) == tree(box.prefix / "generations/0001/www")
    assert (target / "status.json").read_bytes() == (box.prefix / "var/www/status.json").read_bytes()
    done = box.ok("page", "--output", str(target), "--format", "json").data
    assert (done["schema"], done["generation"], done["output"], done["files"]) == ("envmgr.page/1", 3, str(target), 12)
    assert copied(target) == tree(box.prefix / "current/www")
    assert [path.name for path in tmp_path.iterdir()] == ["www"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis").touch()
    (tmp_path / "link").symlink_to("www")
    (tmp_path / "near").mkdir()  # another program's catalog.json
    (tmp_path / "near/catalog.json").write_text("{}")
    (target / "locks/mine.txt").write_text("a page, and a file that somebody put there")
    before, wanted = tree(box.prefix / "generations"), ["home", "link", "home/thesis", "near", "www"]
    for place in (*(tmp_path / name for name in wanted), box.prefix / "generations/0001/www", box.prefix / "current/www", box.prefix / "new"):  # fmt: skip
        for dry in ((), ("--dry-run",)):
            refused = box.run("page", "--output", str(place), *dry)
            assert (refused.code, refused.stderr.splitlines()[0]) == (2, f"error[page-output]: {place} is something else than a page")  # fmt: skip
    assert (tmp_path / "home/thesis").exists()
    assert (target / "locks/mine.txt").exists()
    assert tree(box.prefix / "generations") == before
    (target / "locks/mine.txt").unlink()
    box.ok("page", "--output", f"{target}/locks/..")  # the folder itself, by another name
    assert copied(target) == tree(box.prefix / "current/www")
    assert "error[output-failed]: there is no folder " in box.run("page", "--output", str(tmp_path / "a/b")).stderr


@pytest.mark.always
def test_disk_full_in_the_middle_of_the_page(tmp_path: Path, channel: Channel) -> None:
    """The help is as long as what is left: the module and the specs fit, and the page, which has it again, does not."""
    with small_in(tmp_path, channel) as small:
        small.mount("8m")
        small.ok("build", "kept/1.0")
        small.ok("build", "--no-publish", "hello/1.0")
        fill = "dd if=/dev/zero of={0}/prefix/ballast bs=1k count={1} 2>/dev/null; true"
        locked(small, "hello/1.0", HELLO, help="x" * 300_000)
        assert small.inside is not None
        free = os.statvfs(small.prefix).f_bavail * 4
        small.inside.sh(fill.format(small.root, free - 1300))  # module, specs, cache: 900 kB and a bit more
        done = small.run("publish", "hello/1.0")
        assert done.code == 0, done.stderr
        assert "warning: generation 2 has no www/: [Errno 28] No space left on device" in done.stderr
        assert not (small.prefix / "current/www").exists()
        small.empty()
        complete(small, 2)
        assert "0 differ from their record" in small.ok("verify", "--all").stdout
        target = small.root / "copy"
        said = small.ok("page", "--output", str(target)).stdout
        assert said.startswith("page of generation 2: made now, because its publish wrote none\n")
        assert {*tree(target)} >= PAGE


def test_a_page_that_fails_stops_no_publish_and_a_later_one_has_the_whole_story(sandbox: Sandbox) -> None:
    """The manifest of a published install is damaged: the page says so, and the rest of it is as it was."""
    locked(sandbox, "hello/1.0", HELLO)
    locked(sandbox, "other/1.0", HELLO)
    sandbox.ok("build", "hello/1.0", "other/1.0")
    path = next(each["parts"][0] for each in page(sandbox)["entries"] if each["entry"] == "hello/1.0")
    manifest = sandbox.prefix / f"{path}.manifest.json"
    manifest.chmod(0o644)
    manifest.write_text('{"digest": "' + "0" * 64 + '", "schema": 1, \x00')
    locked(sandbox, "other/1.0", HELLO, help="another text")
    sandbox.ok("publish", "other/1.0")
    catalog = page(sandbox)
    assert (catalog["generation"], catalog["parts"][path]["packages"]) == (2, None)
    assert f"What is inside of {path} is not known: its manifest cannot be read." in (sandbox.prefix / "current/www/index.html").read_text()  # fmt: skip
    assert [each["since"]["generation"] for each in catalog["entries"]] == [1, 1]


def test_a_generation_without_entries_has_a_page(sandbox: Sandbox) -> None:
    locked(sandbox, "hello/1.0", HELLO)
    sandbox.ok("build", "hello/1.0")
    sandbox.ok("publish", "--remove", "hello/1.0")
    catalog = page(sandbox)
    assert (catalog["entries"], catalog["news"][0]["removed"]) == ([], ["hello/1.0"])
    assert "This generation has no entries." in (sandbox.prefix / "current/www/index.html").read_text()


def test_before_the_first_publish_there_is_no_page(sandbox: Sandbox) -> None:
    done = sandbox.run("page")
    assert (done.code, done.stderr.splitlines()[0].partition(":")[0]) == (3, "error[nothing-published]")
    assert sandbox.run("page", "--generation", "7").code == 3
