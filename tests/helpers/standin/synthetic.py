"""Small made-up packages: activation scripts, every kind of prefix replacement, specs that cannot be solved together."""

from __future__ import annotations

from .package import EPOCH, PLACEHOLDER, Entry, Package

_DAY = 86_400

# Four things that activation scripts of real packages do: set, prepend, append, set unless the user did.
_ACTIVATE = b"""\
export HELLO_HOME="${CONDA_PREFIX}/share/hello-activate"
export HELLO_PATH="${CONDA_PREFIX}/share/hello-activate/bin${HELLO_PATH:+:${HELLO_PATH}}"
export HELLO_CATALOG_FILES="${HELLO_CATALOG_FILES:+${HELLO_CATALOG_FILES} }file://${CONDA_PREFIX}/etc/hello/catalog"
if [ -z "${HELLO_CERT_FILE:-}" ]; then
    export HELLO_CERT_FILE="${CONDA_PREFIX}/share/hello-activate/cert.pem"
    export __HELLO_CERT_FILE_SET=1
fi
"""
_DEACTIVATE = b"""\
unset HELLO_HOME
HELLO_PATH="${HELLO_PATH#"${CONDA_PREFIX}/share/hello-activate/bin"}"
HELLO_PATH="${HELLO_PATH#:}"
[ -n "${HELLO_PATH}" ] || unset HELLO_PATH
HELLO_CATALOG_FILES="${HELLO_CATALOG_FILES%"file://${CONDA_PREFIX}/etc/hello/catalog"}"
HELLO_CATALOG_FILES="${HELLO_CATALOG_FILES% }"
[ -n "${HELLO_CATALOG_FILES}" ] || unset HELLO_CATALOG_FILES
if [ "${__HELLO_CERT_FILE_SET:-}" = 1 ]; then
    unset HELLO_CERT_FILE __HELLO_CERT_FILE_SET
fi
"""
# A function cannot be carried over into an environment module.
_BAD_ACTIVATE = b"""\
bad_hello() {
    echo "hello from ${CONDA_PREFIX}"
}
export BAD_HELLO=1
"""
_HELLO_SCRIPT = f"""\
#!/bin/sh
echo "hello from {PLACEHOLDER}"
""".encode()


def synthetic_packages() -> tuple[Package, ...]:
    """All of them; every one is noarch: generic but `needs-cuda`, which is for linux-64."""
    share = "share/hello-prefix"
    return (
        _generic(
            "hello-activate",
            "1.0",
            Entry("etc/conda/activate.d/hello-activate.sh", _ACTIVATE),
            Entry("etc/conda/deactivate.d/hello-activate.sh", _DEACTIVATE),
            Entry("share/hello-activate/cert.pem", b"not a certificate\n"),
            Entry("share/hello-activate/bin/hello", b"#!/bin/sh\necho hello\n", executable=True),
        ),
        _generic("bad-activate", "1.0", Entry("etc/conda/activate.d/bad-activate.sh", _BAD_ACTIVATE)),
        _generic(
            "hello-prefix",
            "1.0",
            Entry("bin/hello-prefix", _HELLO_SCRIPT, executable=True),
            Entry(f"{share}/config.txt", f"prefix = {PLACEHOLDER}\nlib = {PLACEHOLDER}/lib\n".encode()),
            # Binary: the string ends with a zero byte, and the installer keeps the file's length.
            Entry(f"{share}/blob.bin", b"\x7fBLOB\0" + PLACEHOLDER.encode() + b"/share\0end\0"),
            Entry(f"{share}/current", link="config.txt"),
        ),
        _generic("shared", "1.0"),
        _generic("shared", "2.0", timestamp=EPOCH + _DAY),
        _generic("left", "1.0", depends=("shared <2",)),
        _generic("right", "1.0", depends=("shared >=2",)),
        _generic("cuda-version", "11.8", constrains=("__cuda >=11",)),
        _generic("cuda-version", "12.9", constrains=("__cuda >=12",), timestamp=EPOCH + _DAY),
        Package("needs-cuda", "1.0", "0", (_note("needs-cuda", "1.0"),), depends=("__cuda >=11.8",)),
    )


def _generic(
    name: str,
    version: str,
    *entries: Entry,
    depends: tuple[str, ...] = (),
    constrains: tuple[str, ...] = (),
    timestamp: int = EPOCH,
) -> Package:
    return Package(
        name,
        version,
        "0",
        entries or (_note(name, version),),
        depends,
        constrains,
        noarch="generic",
        timestamp=timestamp,
    )


def _note(name: str, version: str) -> Entry:
    return Entry(f"share/{name}/version.txt", f"{name} {version}\n".encode())
