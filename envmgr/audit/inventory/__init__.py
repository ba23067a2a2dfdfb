"""The inventory: what a node and its shells have, as facts without a judgement, for comparing."""
