"""The join of what users get and what differs: which difference explains which harm, on its own nodes."""
