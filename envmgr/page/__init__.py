"""The page of a generation, for the people who load its modules: its data in, static files out."""

WWW = "www"
"""The folder of a generation that has its page."""
INDEX, CATALOG, FEED, STATUS = "index.html", "catalog.json", "feed.xml", "status.json"
"""The files of a page; `STATUS` is the prefix's, and lies beside a page that is served or copied."""
