"""A lock is judged here, and nowhere else: for `lock`, `lock --check`, `catalog check`, `build` and `publish` alike."""
