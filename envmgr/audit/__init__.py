"""The audit: `plan` says what to ask, `ask.gather` asks nodes once, `judge` reads their answers."""
