"""Results as text for people: one function for each type of result, in the module of its subject."""
