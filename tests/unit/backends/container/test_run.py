"""The command lines of runtimes: each is a program here that says what it was given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.backends.container.programs import Programs
from envmgr.catalog.names import parse_entry

ENTRY = parse_entry("tool/1.0")
SAYS = '#!/bin/sh\necho "$(basename "$0")"; printf "%s\\n" "$@"; env | sed "s/^/env: /"\n'


@pytest.fixture
def install(tmp_path: Path) -> Path:
    folder = tmp_path / "install"
    folder.mkdir()
    (folder / "image.sqfs").touch()
    (folder / "bin.fake").mkdir()
    return folder


def write(install: Path, *, gpu: bool = False, runtime: str = "", binds: tuple[str, ...] = ()) -> None:
    variables = {"PATH": "/opt/bin:/bin", "QUOTED": "it's $HOME"}
    Programs({"tool": "/opt/bin/tool"}, variables, gpu, binds, runtime, str(install / "staged")).write(
        install, ENTRY, install
    )


def run(
    install: Path, *argv: str, runtimes: tuple[str, ...] = (), cwd: str = "/tmp", **env: str
) -> subprocess.CompletedProcess[str]:
    for name in runtimes:
        program = install / "bin.fake" / name
        # unshare becomes the runtime, behind the words for the image.
        program.write_text('#!/bin/sh\n[ "$2" != true ] || exit 0\n' + SAYS if name == "unshare" else SAYS)
        program.chmod(0o755)
    given = {"PATH": f"{install}/bin.fake:/usr/bin:/bin", "HOME": str(install), "USER": "alice", **env}
    return subprocess.run(
        [install / "bin" / argv[0], *argv[1:]], env=given, cwd=cwd, capture_output=True, text=True, check=False
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("env: ")]


def test_apptainer_gets_folders_variables_and_gpus(install: Path) -> None:
    write(install, gpu=True, binds=("/usr",))
    said = lines(run(install, "tool", "a b", runtimes=("apptainer",)))
    assert said[:6] == ["apptainer", "--silent", "exec", "--nv", "--no-home", "--pwd"]
    assert said[said.index("--env-file") + 1] == f"{install}/libexec/env.sh"
    assert "/usr" in said[said.index("--bind") + 1].split(",")
    assert said[-3:] == [f"{install}/image.sqfs", "/opt/bin/tool", "a b"]
    assert "--nv" not in lines(_without_gpu(install))


def _without_gpu(install: Path) -> subprocess.CompletedProcess[str]:
    other = install / "other"
    other.mkdir()
    (other / "image.sqfs").touch()
    (other / "bin.fake").mkdir()
    write(other)
    return run(other, "tool", runtimes=("apptainer",))


@pytest.mark.parametrize(("runtime", "program"), [("charliecloud", "ch-run"), ("podman", "podman")])
def test_others_see_the_image_in_namespaces_of_the_command(install: Path, runtime: str, program: str) -> None:
    write(install, runtime=runtime)
    said = lines(run(install, "run", "sh", "-c", "x", runtimes=("unshare", program)))
    assert said[:2] == ["unshare", "--user"]
    assert [f"{install}/image.sqfs", f"{install}/libexec/rootfs"] == said[said.index("1") + 1 :][:2]
    assert f"{install}/bin.fake/{program}" in said
    assert said[-3:] == ["sh", "-c", "x"]


def test_user_chooses_the_runtime_before_the_site(install: Path) -> None:
    write(install, runtime="podman")
    assert lines(run(install, "tool", runtimes=("apptainer", "podman"), ENVMGR_RUNTIME="apptainer"))[0] == "apptainer"


def test_first_runtime_of_the_node_is_taken(install: Path) -> None:
    write(install)
    assert lines(run(install, "tool", runtimes=("apptainer", "unshare", "ch-run", "podman")))[0] == "apptainer"


def test_host_python_modules_and_loader_stay_outside(install: Path) -> None:
    write(install)
    kept = {"SLURM_JOB_ID": "7", "OMPI_MCA_btl": "tcp", "LANG": "C.UTF-8"}
    dropped = {
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "",
        "LMOD_CMD": "/x",
        "MODULEPATH": "/x",
        "CPATH": "/x",
        "VIRTUAL_ENV": "/x",
    }
    said = run(install, "tool", runtimes=("apptainer",), **kept, **dropped).stdout
    env = dict(line.removeprefix("env: ").partition("=")[::2] for line in said.splitlines() if line.startswith("env: "))
    assert {name: env.get(name) for name in kept} == kept
    assert not env.keys() & dropped.keys()


@pytest.mark.parametrize("place", ["/usr", "/etc", "/var/tmp", "/"])
def test_folders_of_the_node_s_system_never_lie_over_those_of_the_image(install: Path, place: str) -> None:
    write(install)
    done = run(install, "tool", runtimes=("apptainer",), cwd=place)
    said = lines(done)
    assert {*said[said.index("--bind") + 1].split(",")} & {"/usr", "/etc", "/var", "/", ""} == set()
    assert said[said.index("--pwd") + 1] == "/"
    assert ("is not seen inside" in done.stderr) == (place != "/")


def test_working_folder_below_a_folder_that_the_recipe_names(install: Path) -> None:
    write(install, binds=("/var/tmp",))
    done = run(install, "tool", runtimes=("apptainer",), cwd="/var/tmp")
    said = lines(done)
    assert (said[said.index("--pwd") + 1], done.stderr) == ("/var/tmp", "")


@pytest.mark.parametrize(("runtime", "program"), [("charliecloud", "ch-run"), ("podman", "podman")])
def test_check_of_a_node_asks_for_the_namespaces_in_which_programs_run(
    install: Path, runtime: str, program: str
) -> None:
    write(install, runtime=runtime)
    ran = lines(run(install, "tool", runtimes=("unshare", program)))
    done = run(install, "../libexec/node-check", runtimes=("unshare", program))
    assert done.returncode == 127  # this one says something else than that there is no such program
    checked = [line for line in done.stderr.splitlines() if not line.startswith("env: ")]
    (none,) = [word for word in checked if word.endswith("no-such-program")]
    assert [word for word in checked if word != none] == [word for word in ran if word != "/opt/bin/tool"]


def test_run_without_a_program_says_what_it_wants(install: Path) -> None:
    write(install)
    done = run(install, "run", runtimes=("apptainer",))
    assert (done.returncode, "name a program of the image" in done.stderr) == (127, True)


@pytest.mark.parametrize(
    ("chosen", "said"), [("docker", "names none of apptainer, charliecloud, podman"), ("singularity", "names none")]
)
def test_runtime_that_is_none(install: Path, chosen: str, said: str) -> None:
    write(install)
    done = run(install, "tool", ENVMGR_RUNTIME=chosen)
    assert done.returncode == 127
    assert said in done.stderr


def test_copy_on_the_node_is_read_where_there_is_one(install: Path) -> None:
    write(install)
    copy = install / "staged" / f".{install.parent.name}+{install.name}"
    copy.parent.mkdir()
    copy.touch()
    assert str(copy) in lines(run(install, "tool", runtimes=("apptainer",)))


def test_image_that_is_not_there(install: Path) -> None:
    write(install)
    (install / "image.sqfs").unlink()
    done = run(install, "tool", runtimes=("apptainer",))
    assert (done.returncode, done.stderr) == (127, f"envmgr: tool/1.0: {install}/image.sqfs cannot be read here\n")


def test_node_that_lets_users_make_no_namespaces(install: Path) -> None:
    write(install, runtime="charliecloud")
    for name, text in (("unshare", "#!/bin/sh\nexit 1\n"), ("ch-run", SAYS)):
        (install / "bin.fake" / name).write_text(text)
        (install / "bin.fake" / name).chmod(0o755)
    for program in (install / "bin/tool", install / "libexec/node-check"):
        done = subprocess.run(
            [program],
            env={"PATH": f"{install}/bin.fake:/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 127
        assert "lets users make no namespaces" in done.stderr


def test_variables_of_the_image_keep_their_text(install: Path) -> None:
    write(install)
    assert (install / "libexec/env").read_text() == "PATH=/opt/bin:/bin\nQUOTED=it's $HOME\n"
    said = subprocess.run(
        ["sh", "-c", f'. {install}/libexec/env.sh; echo "$QUOTED"'], capture_output=True, text=True, check=False
    )
    assert said.stdout == "it's $HOME\n"
