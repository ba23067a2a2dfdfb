# The time again, later than at the beginning.
own clock.later "$(date +%s.%N)"
