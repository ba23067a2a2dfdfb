"""The files of node-setup as a plain tree, for Ansible and similar tools. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from envmgr.catalog.site import Site
from envmgr.modules.node_paths import HOME, HOOK, PROGRAM, SLURM_LINE
from envmgr.modules.nodesetup import BEGIN, END, NodeFile, NodeFiles, NodeLink, install_script


def plain_files(files: NodeFiles, site: Site) -> dict[str, tuple[str, int]]:
    """Return relative path -> text and mode. The tree `files/` is as on the node."""
    tree = {f"files{f.path}": (f.text, int(f.mode, 8)) for f in files.files}
    tree |= {f"files{s.unit.path}": (s.unit.text, int(s.unit.mode, 8)) for s in files.linked}
    tree |= {f"files{f.path}": (f.text, int(f.mode, 8)) for t in files.timers for f in (t.service, t.cron)}
    tree["node-setup.sh"] = (install_script(files), 0o755)
    tree["node-setup.yml"] = (_ansible(files), 0o644)
    tree["README"] = (_readme(files, site), 0o644)
    return tree


def _ansible(files: NodeFiles) -> str:
    """Return tasks for `ansible.builtin.import_tasks`; JSON strings are YAML strings."""
    tasks: list[str] = [
        (
            "# Tasks of a play with `become: true`. What they put on a node is what `envmgr node-setup --apply` "
            "puts there."
        ),
        "- name: envmgr's folders",
        "  ansible.builtin.file: {path: '{{ item }}', state: directory, owner: root, group: root, mode: '0755'}",
        f"  loop: [{HOME.rpartition('/')[0]}, {HOME}, {HOOK}, {PROGRAM}, /etc/profile.d]",
    ]
    for file in files.files:
        if file.optional:
            tasks += [_stat(file.path.rpartition("/")[0])]
        tasks += _copied(file, "envmgr_there.stat.exists" if file.optional else "")
    tasks += ["- {name: is there systemd, ansible.builtin.stat: {path: /etc/systemd/system}, register: envmgr_systemd}"]
    tasks += [
        "- {name: does systemd run, ansible.builtin.stat: {path: /run/systemd/system}, register: envmgr_systemd_runs}",
        "- {name: is there cron, ansible.builtin.stat: {path: /etc/cron.d}, register: envmgr_cron}",
    ]
    for timer in files.timers:
        tasks += _copied(timer.service, "envmgr_systemd.stat.exists")
        tasks += _copied(timer.cron, "not envmgr_systemd_runs.stat.exists and envmgr_cron.stat.exists")
    for service in files.linked:
        path = service.unit.path
        tasks += [
            *_copied(service.unit, "envmgr_systemd.stat.exists"),
            f"- name: {service.link}",
            (
                f"  ansible.builtin.file: {{path: {service.link}, src: '../{path.rpartition('/')[2]}', state: link, "
                f"force: true}}"
            ),
            "  when: envmgr_systemd.stat.exists",
        ]
    kernels = files.kernels
    tasks += [_stat(kernels.path)]
    if kernels.refused:
        ours = f"envmgr_there.stat.lnk_target | default('') == {json.dumps(kernels.target)}"
        tasks += [
            f"- name: no {kernels.path}",
            f"  ansible.builtin.file: {{path: {kernels.path}, state: absent}}",
            f"  when: {json.dumps(ours)}",
        ]
    else:
        tasks += [
            f"- name: the folder of {kernels.path}",
            f"  ansible.builtin.file: {{path: {kernels.path.rpartition('/')[0]}, state: directory}}",
            "  ignore_errors: true",  # read-only: the README says what to do then
            f"- name: {kernels.path}",
            f"  ansible.builtin.file: {{path: {kernels.path}, src: {json.dumps(kernels.target)}, state: link, force: true}}",
            "  when: not envmgr_there.stat.exists",  # with `force`, for what it leads to may not be there
            "  ignore_errors: true",
        ]
    for block in files.blocks:
        for path in block.paths:
            # Debian's bash.bashrc returns early in a shell without a prompt, so lines at its end would not run.
            at = "insertbefore: BOF" if path == "/etc/bash.bashrc" else "insertafter: EOF"
            tasks += [
                _stat(path),
                f"- name: {path}",
                "  ansible.builtin.blockinfile:",
                (
                    f"    {{path: {path}, {at}, marker: '# {{mark}}', marker_begin: '{BEGIN}', marker_end: '{END}', "
                    f"block: {json.dumps(block.text)}}}"
                ),
                "  when: envmgr_there.stat.exists",
            ]
    return "\n".join(tasks) + "\n"


def _stat(path: str) -> str:
    return f"- {{name: is there {path}, ansible.builtin.stat: {{path: {path}}}, register: envmgr_there}}"


def _copied(file: NodeFile, when: str = "") -> list[str]:
    return [
        f"- name: {file.path}",
        "  ansible.builtin.copy:",
        f"    {{src: 'files{file.path}', dest: {file.path}, owner: root, group: root, mode: '0{file.mode}'}}",
        *([f"  when: {when}"] if when else []),
    ]


def _kernels_line(link: NodeLink) -> Iterator[str]:
    if not link.refused:
        instead = f"where it cannot be, let JupyterHub give its spawners JUPYTER_PATH={link.target.rpartition('/')[0]}"
        yield f"{link.path}  a link to {link.target}, where nothing is: {link.why}; {instead}"


def _readme(files: NodeFiles, site: Site) -> str:
    lines = [
        f"What `envmgr node-setup` puts on the nodes of the site `{site.name}` (prefix {site.prefix}).",
        "",
        "files/           as on the node, with the paths there",
        "node-setup.sh    everything in one script, as root: sh node-setup.sh apply | check | undo",
        "node-setup.yml   the same as Ansible tasks: import_tasks it in a play with `become: true`",
        "",
        *(f"{f.path}  {f.mode}  {f.why}" for f in files.files),
        *(f"{s.unit.path}  {s.unit.mode}  {s.unit.why}; linked from {s.link}" for s in files.linked),
        *(f"{f.path}  {f.mode}  {f.why}" for t in files.timers for f in (t.service, t.cron)),
        *_kernels_line(files.kernels),
        *(f"{' or '.join(b.paths)}  lines at the {b.place}: {b.why}" for b in files.blocks),
        "",
        "The lines stand between `# " + BEGIN + "` and `# " + END + "`:",
        *(f"    {text}" for text in dict.fromkeys(b.text for b in files.blocks)),
        "",
        f"Slurm: when every node has the files, put `{SLURM_LINE}` into slurm.conf, then `scontrol reconfigure`.",
        "A task on a node without that file fails; so take the line out before the files go.",
    ]
    return "\n".join(lines) + "\n"
