"""Where pip looks, in uv's words."""

from __future__ import annotations

import pytest

from envmgr.system.pip_settings import uv_settings


@pytest.mark.parametrize(
    ("environ", "configured", "expected"),
    [
        ({}, {}, {}),
        ({"HOME": "/h", "PIP_QUIET": "1", "PIP_INDEX_URL": ""}, {"quiet": "1"}, {}),
        ({"PIP_INDEX_URL": "https://a/simple"}, {"index-url": "https://b"}, {"UV_DEFAULT_INDEX": "https://a/simple"}),
        ({}, {"index-url": "https://b"}, {"UV_DEFAULT_INDEX": "https://b"}),
        (
            {"PIP_FIND_LINKS": "/a /b"},
            {"extra-index-url": "\nfile:///c\nhttps://d", "no-index": "1"},
            {
                "UV_FIND_LINKS": "/a,/b",
                "UV_INDEX": "file:///c https://d",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
                "UV_NO_INDEX": "1",
            },
        ),
        (
            {"PIP_CERT": "/c.pem", "PIP_DEFAULT_TIMEOUT": "180", "PIP_TRUSTED_HOST": "a b"},
            {"constraint": "/x", "proxy": "http://p:1"},
            {
                "SSL_CERT_FILE": "/c.pem",
                "UV_HTTP_TIMEOUT": "180",
                "UV_INSECURE_HOST": "a b",
                "UV_CONSTRAINT": "/x",
                "ALL_PROXY": "http://p:1",
            },
        ),
    ],
)
def test_what_pip_is_told_is_said_to_uv(
    environ: dict[str, str], configured: dict[str, str], expected: dict[str, str]
) -> None:
    assert uv_settings(environ, configured) == expected
