"""What a modulefile says, and what only Lmod knows."""
