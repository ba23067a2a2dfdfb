"""Shell text and judgements of shells that several checks share."""
