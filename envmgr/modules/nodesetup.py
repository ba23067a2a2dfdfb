"""The files that a node needs so that its shells and jobs find the modules, the script that installs them, and the
paths that users may read. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.site import Site
from envmgr.modules.kernels import KERNELS
from envmgr.modules.lmod import USUAL_FOLDERS
from envmgr.modules.node_paths import (
    CHECK_FLIP,
    CHECKED,
    CSH_PROFILE,
    FISH_COMPLETION,
    FISH_PROFILE,
    FLIP_CRON,
    FLIP_LINK,
    FLIP_STAMP,
    FLIP_TIMER,
    FLIP_UNIT,
    GPU_FACTS,
    GPU_LINK,
    GPU_UNIT,
    GPUS,
    HOME,
    HOOK,
    IMAGES,
    IMAGES_LINK,
    IMAGES_UNIT,
    PROFILE,
    PROGRAM,
    SIGNERS,
    SLURM_LINE,
    TASK_PROLOG,
)
from envmgr.system.files import shipped
from envmgr.system.modes import as_user, opening
from envmgr.system.shelltext import assign, quote

JUPYTER_LINK = f"/usr/local/share/jupyter/{KERNELS}"  # where each Jupyter looks, whatever its environment
BEGIN, END = ">>> envmgr >>>", "<<< envmgr <<<"  # the marks around our lines in a file of the system, after "# "

Action = Literal["apply", "check", "undo", "undo-check"]

_HOOK_FILES = {
    "SitePackage.lua": "puts the hook into Lmod; the site's own SitePackage.lua comes after it",
    "prepend.lua": "the same for Lmod 9.2.8 and later",
    "collections.lua": "the hook: saved collections restore after a publish",
    "newer.lua": "the hook: says that a module came with a later generation",
    "restore.lua": "reads a collection as one of the shell's generation",
    "closure.lua": "finds the dependencies that its entries have there",
}
_SOURCE = f"[ ! -r {PROFILE} ] || . {PROFILE}"
_CSH_SOURCE = f"if ( -r {CSH_PROFILE} ) source {CSH_PROFILE}"
_END_OF_FILE = "END_OF_FILE_OF_ENVMGR"

_BASH_FILES, _ZSH_FILES = ("/etc/bash.bashrc", "/etc/bashrc"), ("/etc/zsh/zshenv", "/etc/zshenv")


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file that is wholly ours. `why` is one line for the administrator. One of an `optional` program is only for nodes
    that have its folder.
    """

    path: str
    mode: str
    text: str
    why: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class NodeBlock:
    """Lines of envmgr in a file of the system. `paths` are the possible files; the first that fits the node is taken.

    `function` of install.sh decides that; `place` is the place in the file.
    """

    paths: tuple[str, ...]
    place: str
    text: str
    why: str
    function: str


@dataclass(frozen=True, slots=True)
class NodeService:
    """A systemd unit that runs `program` at boot, and the link that enables it; skipped on a node without systemd."""

    unit: NodeFile
    link: str
    program: str


@dataclass(frozen=True, slots=True)
class NodeTimer:
    """A timer that runs `program` every few minutes: a systemd unit that another one starts; a file for cron
    where systemd does not run.
    """

    service: NodeFile
    timer: NodeService
    cron: NodeFile

    @property
    def program(self) -> str:
        return self.timer.program


@dataclass(frozen=True, slots=True)
class NodeLink:
    """A link that is made where nothing is: what a site has there stays. Where it is `refused` there is to be none."""

    path: str
    target: str
    why: str
    refused: bool


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """All that a node gets. `kernels` leads to those of what is current; `timers` are of sites that sign."""

    files: tuple[NodeFile, ...]
    blocks: tuple[NodeBlock, ...]
    services: tuple[NodeService, ...]
    kernels: NodeLink
    timers: tuple[NodeTimer, ...] = ()

    @property
    def linked(self) -> tuple[NodeService, ...]:
        """Every unit of systemd's that a link enables."""
        return (*self.services, *(t.timer for t in self.timers))

    @property
    def count(self) -> int:
        """The number of lines that a node answers: one for a file, block or link, two for a service (unit, link), two
        more for a timer (service, cron).
        """
        return len(self.files) + len(self.blocks) + 1 + 2 * len(self.linked) + 2 * len(self.timers)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that a node may answer about, in the order in which they are shown."""
        return (
            *(f.path for f in self.files),
            *(f.path for t in self.timers for f in (t.service, t.cron)),
            *(p for s in self.linked for p in (s.unit.path, s.link)),
            self.kernels.path,
            *(p for b in self.blocks for p in b.paths),
        )


def node_files(site: Site, signers: str | None = None, floor: int = 0) -> NodeFiles:
    """Return the files for the nodes of `site`: they depend on its prefix, `lmod.dir`, `slurm`, `staging` and signing, not
    on what is published.

    `signers` is the text of the list of allowed signers; None if the site does not sign. `floor` is the highest signed
    flip so far: nodes accept no earlier one, not even a node that has seen no flip.
    """
    return NodeFiles(
        files=(
            NodeFile(f"{HOME}/settings", "644", _settings(site, floor), "the prefix, and where Lmod may lie"),
            NodeFile(f"{HOME}/pin", "755", _text("pin"), "finds the generation of a shell or job, in bounded time"),
            *(NodeFile(f"{HOOK}/{name}", "644", _text(f"lmod/{name}"), why) for name, why in _HOOK_FILES.items()),
            NodeFile(f"{PROGRAM}/module", "755", _text("module"), "says what to write in a shell without `module`"),
            NodeFile(f"{GPUS}.sh", "644", _text("gpus.sh"), "looks at the node's GPUs"),
            NodeFile(
                GPUS, "755", _text("gpus"), f"writes what it has of GPUs to {GPU_FACTS}, for modules; runs at boot"
            ),
            NodeFile(TASK_PROLOG, "755", _text("task-prolog"), f"for Slurm jobs, with `{SLURM_LINE}` in slurm.conf"),
            NodeFile(PROFILE, "644", _text("profile.sh"), "login shells: sh, bash, ksh, zsh"),
            NodeFile(CSH_PROFILE, "644", _text("profile.csh"), "login shells: csh, tcsh"),
            NodeFile(f"{HOME}/completion.bash", "644", _text("completion.bash"), "completion of `envmgr`, for bash"),
            NodeFile(f"{HOME}/_envmgr", "644", _text("_envmgr"), "the same, for zsh"),
            NodeFile(FISH_PROFILE, "644", _text("profile.fish"), "each fish", optional=True),
            NodeFile(
                FISH_COMPLETION, "644", _text("completion.fish"), "completion of `envmgr`, for fish", optional=True
            ),
            *(() if signers is None else _signing_files(signers)),
            *(_image_files() if site.stages else ()),
        ),
        blocks=(
            NodeBlock(
                _BASH_FILES, "top of bash.bashrc, end of bashrc", _SOURCE, "bash over ssh without a login", "block_bash"
            ),
            NodeBlock(_ZSH_FILES, "end", _SOURCE, "zsh, which may not read profile.d", "block_zsh"),
            NodeBlock(
                ("/etc/csh.cshrc",), "end", _CSH_SOURCE, "csh and tcsh where they do not read profile.d", "block_csh"
            ),
        ),
        services=(
            NodeService(
                NodeFile(GPU_UNIT, "644", _text("envmgr-gpus.service"), f"runs {GPUS} at boot"), GPU_LINK, GPUS
            ),
            *([_image_service()] if site.stages else []),
        ),
        kernels=NodeLink(
            JUPYTER_LINK,
            f"{site.prefix}/current/{KERNELS}",
            "notebooks: for a Jupyter whose service reads no start-up file",
            site.signing is not None and site.policies.unsigned == "refuse",
        ),
        timers=() if signers is None else (_flip_timer(),),
    )


def _signing_files(signers: str) -> tuple[NodeFile, ...]:
    return (
        NodeFile(SIGNERS, "644", signers if signers.endswith("\n") else f"{signers}\n", "whose signatures count"),
        NodeFile(CHECK_FLIP, "755", _text("check-flip"), f"checks what is published, for {FLIP_STAMP}"),
        NodeFile(f"{HOME}/signed.sh", "644", _text("signed.sh"), "reads that at a login"),
    )


def _image_files() -> tuple[NodeFile, ...]:
    return (
        NodeFile(f"{IMAGES}.sh", "644", _text("images.sh"), "mounts images over installs"),
        NodeFile(IMAGES, "755", _text("images"), "mounts those of the node's disk; runs at boot"),
    )


def _image_service() -> NodeService:
    unit = NodeFile(IMAGES_UNIT, "644", _text("envmgr-images.service"), f"runs {IMAGES} at boot")
    return NodeService(unit, IMAGES_LINK, IMAGES)


def _flip_timer() -> NodeTimer:
    return NodeTimer(
        NodeFile(FLIP_UNIT, "644", _text("envmgr-flip.service"), f"runs {CHECK_FLIP}"),
        NodeService(
            NodeFile(FLIP_TIMER, "644", _text("envmgr-flip.timer"), "does so every five minutes"), FLIP_LINK, CHECK_FLIP
        ),
        NodeFile(FLIP_CRON, "644", _text("cron"), "the same where systemd does not run"),
    )


def install_script(files: NodeFiles, action: Action | None = None) -> str:
    """Return the POSIX shell script that installs on the machine it runs on, or undoes that.

    The script's head describes its output. Without `action` the script takes it as its first argument.
    """
    calls = [f"look_at_slurm {TASK_PROLOG}"]
    calls += [f"{'where' if f.optional else 'file'} {f.path} {f.mode} {_here(f)}" for f in files.files]
    calls += [f"{b.function} {quote(b.text)}" for b in files.blocks]
    calls += [f"service {s.unit.path} {s.link} {s.program} {_here(s.unit)}" for s in files.services]
    refuse = " refuse" if files.kernels.refused else ""
    calls += [f"gpus {GPUS} {GPU_FACTS}", f"kernels {files.kernels.path} {quote(files.kernels.target)}{refuse}"]
    for timer in files.timers:
        calls += [
            f"unit {timer.service.path} {timer.program} {_here(timer.service)}",
            f"service {timer.timer.unit.path} {timer.timer.link} {timer.program} {_here(timer.timer.unit)}",
            f"cron {timer.cron.path} {timer.cron.mode} {timer.program} {_here(timer.cron)}",
            f"flip_check {timer.program} {CHECKED}",
        ]
    calls += [f"folders {PROGRAM} {HOOK} {HOME} {HOME.rpartition('/')[0]}", 'say slurm "$slurm_state" "$slurm_value"']
    chosen = "" if action is None else f"set -- {action}\n"
    return chosen + _text("install.sh") + "\n" + _text("install.whole.sh") + "\n" + "\n".join(calls) + "\n"


def _here(file: NodeFile) -> str:
    """Return the text as a here-document."""
    # In quotes, so that the shell that installs replaces nothing in the file's text.
    return f"<<'{_END_OF_FILE}'\n{file.text}{_END_OF_FILE}"


def _settings(site: Site, floor: int) -> str:
    chosen = site.lmod.dir  # the package's folder, or the libexec in it
    lmod = ":".join(map(str, [chosen, chosen.parent])) if chosen is not None else ""
    usual = ":".join(str(folder / "lmod") for folder in USUAL_FOLDERS) if chosen is None else ""
    head = "# Read by /etc/envmgr/node/pin. Written by `envmgr node-setup` from site.yaml: change it there.\n"
    heal = assign(heal_export="yes") if site.slurm.heal_export else ""
    images = assign(images=site.staging.folder) if site.stages else ""
    return (
        head
        + assign(prefix=str(site.prefix), lmod=lmod, lmod_usual=usual)
        + heal
        + images
        + _signing_settings(site, floor)
    )


def _signing_settings(site: Site, floor: int) -> str:
    if site.signing is None:
        return ""
    days = site.signing.expires_days
    return assign(
        signed=site.policies.unsigned, signed_days="" if days is None else str(max(1, int(days))), signed_floor=floor
    )


def _text(name: str) -> str:
    return (shipped("nodesetup") / name).read_text("utf-8")


_FOLDERS = ("/etc/envmgr", HOME, HOOK, PROGRAM)
_SITE = "/etc/envmgr/site.yaml"


def public_paths(site: Site, installs: Sequence[str] = ()) -> frozenset[str]:
    """Return the paths that users may read: node-setup's files, their folders, the prefix, and those of `installs` that
    lie below it.

    The key with which the site signs is never among them, wherever it lies.
    """
    prefix = str(site.prefix)
    files = [file.path for file in node_files(site, signers="").files]
    # A record names the installs: `..` in it must not make other files public.
    below = [path for path in installs if path.startswith(f"{prefix}/store/") and ".." not in path.split("/")]
    key = set() if site.signing is None else set(map(str, site.signing.key_files))
    shared = {prefix, f"{prefix}/store", f"{prefix}/generations"}
    return frozenset({*_FOLDERS, _SITE, SIGNERS, *files, *shared, *below} - key)


def opening_command(site: Site, paths: Sequence[str], installs: Sequence[str] = ()) -> str:
    """Return the command by which users can read `paths` again; empty unless all are envmgr's own.

    The build user opens what lies below the prefix, because that user may have put a link there.
    """
    public = public_paths(site, installs)
    if not paths or not public.issuperset(paths):
        return ""
    below = [path for path in paths if site.build_user is not None and path.startswith(f"{site.prefix}/")]
    return "; ".join(
        as_user(user, opening(of, public, group_only=bool(site.policies.mask & 0o005)))
        for user, of in ((site.build_user or "root", below), ("root", [path for path in paths if path not in below]))
        if of
    )
