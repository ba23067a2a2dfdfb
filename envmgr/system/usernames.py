"""What people call the users whose numbers files have."""

from __future__ import annotations

import pwd


def user_name(uid: int) -> str:
    """As people know them; `uid 1234` for one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
