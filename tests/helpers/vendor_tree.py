"""A small tree as a vendor's installer makes it: programs, a library, a page, and a module of its own."""

from __future__ import annotations

from pathlib import Path


def make_tree(root: Path) -> Path:
    """Make the tree at `root`, and return it."""
    texts = {
        "bin/hello": "#!/bin/sh\necho hello\n",
        "lib/libhello.txt": "a library\n",
        "share/man/man1/hello.1": ".TH hello 1\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.startswith("bin/") else 0o644)
    (root / "lib" / "libhello.txt.1").symlink_to("libhello.txt")
    return root


def make_module(folder: Path, root: Path, name: str = "vendor/1.0") -> Path:
    """Make a modulefile of the vendor for the tree, `folder/NAME.lua`, and return it."""
    path = folder / f"{name}.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'help("A vendor\'s module")\nprepend_path("PATH", "{root}/bin")\nprepend_path("LD_LIBRARY_PATH", "{root}/lib")\n'
        f'setenv("HELLO_HOME", "{root}")\n'
    )
    return path
