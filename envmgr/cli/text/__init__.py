"""Results as a person sees them: one function for each type of result, in the module of its subject."""
