"""What a node needs so that its shells and jobs find the modules: the files, and the script that puts them there. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.site import Site
from envmgr.modules.lmod import USUAL_FOLDERS
from envmgr.system.files import sha256_bytes
from envmgr.system.resources import shipped
from envmgr.system.shelltext import assign, quote

HOME = "/etc/envmgr/node"
HOOK = f"{HOME}/lmod"
PROFILE = "/etc/profile.d/zz-envmgr.sh"  # after Lmod's own lmod.sh, z00_lmod.sh
CSH_PROFILE = "/etc/profile.d/zz-envmgr.csh"
TASK_PROLOG = f"{HOME}/task-prolog"
PROGRAM = f"{HOOK}/bin"  # its name: EasyBuild looks for `lmod` in what `type module` says, and takes other programs for a fault
GPUS = f"{HOME}/gpus"
GPU_FACTS = "/run/envmgr/gpus"
GPU_UNIT = "/etc/systemd/system/envmgr-gpus.service"
GPU_LINK = "/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service"
SLURM_LINE = f"TaskProlog={TASK_PROLOG}"
BEGIN, END = ">>> envmgr >>>", "<<< envmgr <<<"  # the marks around our lines in a file of the system, after "# "

Action = Literal["apply", "check", "undo", "undo-check"]

_HOOK_FILES = {
    "SitePackage.lua": "puts the hook into Lmod; the site's own SitePackage.lua comes after it",
    "prepend.lua": "the same for Lmod 9.2.8 and later",
    "collections.lua": "the hook: saved collections restore after a publish",
    "restore.lua": "reads a collection as one of the shell's generation",
    "closure.lua": "finds the dependencies that its entries have there",
}
_SOURCE = f"[ ! -r {PROFILE} ] || . {PROFILE}"
_CSH_SOURCE = f"if ( -r {CSH_PROFILE} ) source {CSH_PROFILE}"
_END_OF_FILE = "END_OF_FILE_OF_ENVMGR"


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file that is wholly ours. `why` is one line for the administrator."""

    path: str
    mode: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class NodeBlock:
    """Lines of ours in a file of the system. `paths` are where it may be, the first that fits the node is taken.

    `function` of install.sh decides that; `place` is where in the file.
    """

    paths: tuple[str, ...]
    place: str
    text: str
    why: str
    function: str


@dataclass(frozen=True, slots=True)
class NodeService:
    """A unit of systemd's that runs `program` at boot, and the link by which it is enabled; skipped where there is no systemd."""

    unit: NodeFile
    link: str
    program: str


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """All that a node gets."""

    files: tuple[NodeFile, ...]
    blocks: tuple[NodeBlock, ...]
    services: tuple[NodeService, ...]

    @property
    def count(self) -> int:
        """How many lines a node answers; of blocks one each, of services one for the unit and one for the link."""
        return len(self.files) + len(self.blocks) + 2 * len(self.services)

    @property
    def paths(self) -> frozenset[str]:
        """Every path that a node may answer about."""
        return frozenset(
            [
                *(f.path for f in self.files),
                *(p for b in self.blocks for p in b.paths),
                *(p for s in self.services for p in (s.unit.path, s.link)),
            ]
        )


def node_files(site: Site) -> NodeFiles:
    """What the nodes of `site` get; it depends on its prefix, `lmod.dir` and `slurm` alone, and on nothing published."""
    return NodeFiles(
        files=(
            NodeFile(f"{HOME}/settings", "644", _settings(site), "the prefix, and where Lmod may lie"),
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
        ),
        blocks=(
            NodeBlock(
                ("/etc/bash.bashrc", "/etc/bashrc"),
                "top of bash.bashrc, end of bashrc",
                _SOURCE,
                "bash over ssh without a login",
                "block_bash",
            ),
            NodeBlock(
                ("/etc/zsh/zshenv", "/etc/zshenv"), "end", _SOURCE, "zsh, which may not read profile.d", "block_zsh"
            ),
            NodeBlock(
                ("/etc/csh.cshrc",), "end", _CSH_SOURCE, "csh and tcsh where they do not read profile.d", "block_csh"
            ),
        ),
        services=(
            NodeService(
                NodeFile(GPU_UNIT, "644", _text("envmgr-gpus.service"), f"runs {GPUS} at boot"), GPU_LINK, GPUS
            ),
        ),
    )


def install_script(files: NodeFiles, action: Action | None = None) -> str:
    """The POSIX shell script that installs on the machine it runs on, or undoes that. Its head says what it prints.

    Without `action` the script takes it as its first argument.
    """
    calls = [f"look_at_slurm {TASK_PROLOG}"]
    calls += [f"file {f.path} {f.mode} <<'{_END_OF_FILE}'\n{f.text}{_END_OF_FILE}" for f in files.files]
    calls += [f"{b.function} {quote(b.text)}" for b in files.blocks]
    calls += [
        f"service {s.unit.path} {s.link} {s.program} <<'{_END_OF_FILE}'\n{s.unit.text}{_END_OF_FILE}"
        for s in files.services
    ]
    calls += [f"gpus {GPUS} {GPU_FACTS}"]
    calls += [f"folders {PROGRAM} {HOOK} {HOME} {HOME.rpartition('/')[0]}", 'say slurm "$slurm_state" "$slurm_value"']
    chosen = "" if action is None else f"set -- {action}\n"
    return chosen + _text("install.sh") + "\n" + "\n".join(calls) + "\n"


def plain_files(files: NodeFiles, site: Site) -> dict[str, tuple[str, int]]:
    """For Ansible and the like: relative path -> text and mode. The tree `files/` is as on the node."""
    tree = {f"files{f.path}": (f.text, int(f.mode, 8)) for f in files.files}
    tree |= {f"files{s.unit.path}": (s.unit.text, int(s.unit.mode, 8)) for s in files.services}
    tree["node-setup.sh"] = (install_script(files), 0o755)
    tree["node-setup.yml"] = (_ansible(files), 0o644)
    tree["README"] = (_readme(files, site), 0o644)
    return tree


def _settings(site: Site) -> str:
    chosen = site.lmod.dir  # the package's folder, or the libexec in it
    lmod = ":".join(map(str, [chosen, chosen.parent])) if chosen is not None else ""
    usual = ":".join(str(folder / "lmod") for folder in USUAL_FOLDERS) if chosen is None else ""
    head = "# Read by /etc/envmgr/node/pin. Written by `envmgr node-setup` from site.yaml: change it there.\n"
    heal = assign(heal_export="yes") if site.slurm.heal_export else ""
    return head + assign(prefix=str(site.prefix), lmod=lmod, lmod_usual=usual) + heal


def hook_names() -> tuple[str, ...]:
    """The files of the hook, in the order in which `hook_digest` takes them."""
    return tuple(_HOOK_FILES)


def hook_digest() -> str:
    """sha256 of the hook's files, one after the other, as `node_files` puts them into HOOK."""
    return sha256_bytes("".join(_text(f"lmod/{name}") for name in _HOOK_FILES).encode())


def _text(name: str) -> str:
    return (shipped("nodesetup") / name).read_text("utf-8")


def _ansible(files: NodeFiles) -> str:
    """Tasks for `ansible.builtin.import_tasks`; JSON strings are YAML strings."""
    tasks: list[str] = [
        "# Tasks of a play with `become: true`. What they put on a node is what `envmgr node-setup --apply` puts there.",
        "- name: envmgr's folders",
        "  ansible.builtin.file: {path: '{{ item }}', state: directory, owner: root, group: root, mode: '0755'}",
        f"  loop: [{HOME.rpartition('/')[0]}, {HOME}, {HOOK}, {PROGRAM}, /etc/profile.d]",
    ]
    for file in files.files:
        tasks += [
            f"- name: {file.path}",
            "  ansible.builtin.copy:",
            f"    {{src: 'files{file.path}', dest: {file.path}, owner: root, group: root, mode: '0{file.mode}'}}",
        ]
    for service in files.services:
        path = service.unit.path
        tasks += [
            "- {name: is there systemd, ansible.builtin.stat: {path: /etc/systemd/system}, register: envmgr_systemd}",
            f"- name: {path}",
            "  ansible.builtin.copy:",
            f"    {{src: 'files{path}', dest: {path}, owner: root, group: root, mode: '0{service.unit.mode}'}}",
            "  when: envmgr_systemd.stat.exists",
            f"- name: {service.link}",
            f"  ansible.builtin.file: {{path: {service.link}, src: '../{path.rpartition('/')[2]}', state: link, force: true}}",
            "  when: envmgr_systemd.stat.exists",
        ]
    for block in files.blocks:
        for path in block.paths:
            at = "insertbefore: BOF" if path == "/etc/bash.bashrc" else "insertafter: EOF"
            tasks += [
                f"- {{name: is there {path}, ansible.builtin.stat: {{path: {path}}}, register: envmgr_there}}",
                f"- name: {path}",
                "  ansible.builtin.blockinfile:",
                f"    {{path: {path}, {at}, marker: '# {{mark}}', marker_begin: '{BEGIN}', marker_end: '{END}', block: {json.dumps(block.text)}}}",
                "  when: envmgr_there.stat.exists",
            ]
    return "\n".join(tasks) + "\n"


def _readme(files: NodeFiles, site: Site) -> str:
    lines = [
        f"What `envmgr node-setup` puts on the nodes of the site `{site.name}` (prefix {site.prefix}).",
        "",
        "files/           as on the node, with the paths there",
        "node-setup.sh    everything in one script, as root: sh node-setup.sh apply | check | undo",
        "node-setup.yml   the same as Ansible tasks: import_tasks it in a play with `become: true`",
        "",
        *(f"{f.path}  {f.mode}  {f.why}" for f in files.files),
        *(f"{s.unit.path}  {s.unit.mode}  {s.unit.why}; linked from {s.link}" for s in files.services),
        *(f"{' or '.join(b.paths)}  lines at the {b.place}: {b.why}" for b in files.blocks),
        "",
        "The lines stand between `# " + BEGIN + "` and `# " + END + "`:",
        *(f"    {text}" for text in dict.fromkeys(b.text for b in files.blocks)),
        "",
        f"Slurm: when every node has the files, put `{SLURM_LINE}` into slurm.conf, then `scontrol reconfigure`.",
        "A task on a node without that file fails; so take the line out before the files go.",
    ]
    return "\n".join(lines) + "\n"
