"""What is asked of nodes about images, and how half of an answer is read."""

from __future__ import annotations

import pytest

from envmgr.images.node import NodeImage, WantedImage, node_script, read_answer

SUM = "0" * 60 + "beef"
WANTED = WantedImage("/sw/store/hello/1.0-00000000", "/sw/images/hello/1.0-00000000.sqfs", SUM, 100)
ROW = f"image\t{WANTED.path}\t{SUM}\tshare\t{WANTED.image}\t50\t100\t3\t"


def test_copy_is_named_by_install_and_bytes() -> None:
    assert WANTED.name == "hello+1.0-00000000.00000000"


def test_whole_answer() -> None:
    answer = read_answer("c1", f"host\tc1.local\n{ROW}\n", [WANTED])
    assert (answer.host, answer.fault) == ("c1.local", "")
    assert answer.images == (NodeImage("c1", WANTED.path, SUM, "share", WANTED.image, 50, 100, 3, ""),)
    assert not answer.images[0].done


@pytest.mark.parametrize(
    ("why", "copied", "mounted", "done"),
    [
        ("", 100, "local", True),
        ("", 50, "share", False),
        ("waiting: 1 of root (sh)", 50, "none", False),
        ("waiting: 1 of root (sh)", 100, "none", True),
        ("the local disk is full", 0, "share", True),
        ("x is mounted there, which is not this image", 0, "other", True),
    ],
)
def test_when_no_more_can_be_done(why: str, copied: int, mounted: str, done: bool) -> None:
    assert NodeImage("c1", "/p", SUM, mounted, "", copied, 100, 0, why).done is done  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host\tc1\n",
        f"host\tc1\n{ROW[:40]}\n",
        f"{ROW}\n",
        f"host\tc1\n{ROW}\nsomething else\n",
        f"host\tc1\n{ROW.replace(WANTED.path, '/other')}\n",
        f"host\tc1\n{ROW.replace(WANTED.path, WANTED.path + ' ../../../etc/cron')}\n",
        f"host\tc1\n{ROW.replace(WANTED.path, '/a/../etc/store/x/y-00000000')}\n",
        f"host\tc1\n{ROW.replace('50', '9' * 5000)}\n",
    ],
)
def test_half_an_answer_is_a_fault(text: str) -> None:
    assert read_answer("c1", text, [WANTED]).fault.startswith("an answer that makes no sense")


def test_answers_of_another_user_and_of_another_run() -> None:
    assert "ran there as alice" in read_answer("c1", "not-root\talice\n", [WANTED]).fault
    assert read_answer("c1", "host\tc1\nbusy\n", [WANTED]).fault == "another run is staging there"


def test_names_of_hosts_do_not_become_shell_text() -> None:
    script = node_script("copy", [WANTED], folder="/x", quota=1, seconds=1, sources={"c2": "c1", "$(touch /x)": "c1"})
    assert "touch" not in script
    assert "c2) stage_from=c1 ;;" in script


def test_file_with_a_blank_or_that_is_gone_is_shown_as_it_is() -> None:
    row = ROW.replace(WANTED.image, f"{WANTED.image} (deleted)")
    assert read_answer("c1", f"host\tc1\n{row}\n", [WANTED]).images[0].source == f"{WANTED.image} (deleted)"


def test_node_without_room_says_so() -> None:
    answer = read_answer("c1", "host\tc1\nclosed\t/var/x cannot be written: is the local disk full?\n", [WANTED])
    assert answer.fault == "/var/x cannot be written: is the local disk full?"
