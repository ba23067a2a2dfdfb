"""The questions of an audit: what this host expects, and what nodes, jobs and traced shells answer."""
