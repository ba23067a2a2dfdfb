"""Software bills of materials: what entries are made of, as files for scanners. They need the extra `sbom`."""

from __future__ import annotations

from envmgr.errors import EnvmgrError
from envmgr.exchange.sboms.document import Document


def write_sbom(document: Document) -> str:
    """Return the text of the document. Raise EnvmgrError `extra-missing` without the libraries of the extra `sbom`."""
    try:
        from envmgr.exchange.sboms import cyclonedx
    except ModuleNotFoundError as error:
        raise EnvmgrError(
            "extra-missing",
            f"an SBOM needs the Python package {error.name}, which this envmgr does not have",
            hint="pip install 'envmgr[sbom]'",
        ) from None
    return cyclonedx.write(document)
