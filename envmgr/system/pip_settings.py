"""The places that pip gets packages from, in uv's words. Also read before anything is installed: only the standard
library.
"""

from __future__ import annotations

from collections.abc import Mapping

# pip's option -> uv's variable. Source: pip's and uv's documentation of their settings.
_WORDS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
_COMMAS = ("find-links",)  # uv wants commas between several, where pip has blanks


def uv_settings(environ: Mapping[str, str], configured: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables for uv with the settings in `PIP_…` of `environ` and in pip's `configured` files (option ->
    value).
    """
    said = {**(configured or {})}
    # As in pip, a variable takes precedence over a configuration file.
    said |= {
        key[4:].lower().replace("_", "-"): value for key, value in environ.items() if key.startswith("PIP_") and value
    }
    found = {
        uv: (",".join(said[pip].split()) if pip in _COMMAS else " ".join(said[pip].split()))
        for pip, uv in _WORDS.items()
        if said.get(pip)
    }
    if "UV_INDEX" in found:
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip: the best version of all places
    return found
