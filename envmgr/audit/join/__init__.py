"""What users get, and what differs, joined: which difference explains which harm, on its own nodes."""
