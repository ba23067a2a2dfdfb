"""The table of the inventory's kinds: severities, and the commands that a hint may have."""

from __future__ import annotations

import pytest

from envmgr.audit.inventory.kinds import KINDS

FILE, OTHER, SHUT = "0123456789ab 644 root:root", "0123456789ac 600 root:root", "~0123456789ac 600 root:root"


@pytest.mark.parametrize(
    ("kind", "key", "value", "right", "severity", "run"),
    [
        ("mount", "/x y", "tmpfs tmpfs rw", None, "warning", "umount -l '/x y'"),
        ("mount", "/s", "xfs /dev/a noexec,ro", "xfs /dev/a rw,noexec", "warning", "mount -o remount,bind,rw /s"),
        ("mount", "/s", "xfs /dev/a rw", "xfs /dev/b rw", "warning", ""),
        ("file", "/etc/motd", SHUT, FILE, "warning", "chmod 644 /etc/motd"),
        ("file", "/etc/motd", OTHER, FILE, "note", ""),
        ("prog", "/opt/x", "755 root:root 24", "644 root:root 24", "warning", ""),
        ("file", "/etc/envmgr/node/pin", None, FILE, "warning", "envmgr node-setup --apply --nodes c2"),
        ("lib", "libx.so.1", None, "/opt/libx.so.1", "warning", "ldconfig"),
        ("env", "EDITOR", "vi", "nano", "note", ""),
        ("env", "https_proxy", "vi", "nano", "warning", ""),
    ],
)
def test_kind_gives_a_severity_and_the_one_command(
    kind: str, key: str, value: str | None, right: str | None, severity: str, run: str
) -> None:
    found, says, hint = KINDS[kind].told(key, value, right, "c2")
    assert (found, hint.run) == (severity, run)
    assert key in says


def test_rows_have_no_command_but_the_fixed_ones() -> None:
    runs = {row.hint.run.split(" ")[0] for kind in KINDS.values() for row in kind.rows if row.hint.run}
    assert runs == {"umount", "mount", "chmod", "ldconfig", "envmgr"}


@pytest.mark.parametrize(
    ("value", "right", "says"),
    [
        ("nfs s:/x nosuid,ro vers=3", "nfs s:/x rw vers=3", "`mount -o remount,bind,rw,suid /m`"),
        ("nfs s:/x ro ro,vers=3", "nfs s:/x rw vers=3", "`mount -o remount,rw /m`"),
        ("ext4 /dev/sda rw + ext4 /dev/sda noexec,rw", "ext4 /dev/sda rw", "`mount -o remount,bind,exec /m`"),
        ("ext4 /dev/sda rw + tmpfs tmpfs rw", "ext4 /dev/sda rw", "`umount -l /m`, and out of /etc/fstab"),
        ("tmpfs a rw + tmpfs a rw", None, "`umount -l /m /m`, and out of /etc/fstab"),
    ],
)
def test_mount_gets_its_options_back_and_what_is_over_it_goes(value: str, right: str, says: str) -> None:
    assert KINDS["mount"].told("/m", value, right, "c2")[2].text == f"on the node: {says}"
