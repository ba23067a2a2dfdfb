"""A campaign is a module: its docstring says what it shows, ROUNDS how many rounds it has, `play` plays them.

`play(seed, first, last)` yields a few words after each round from `first` to `last`, both counted from 1, and raises where a
round shows a fault. The chances of round n are those of `random.Random(f"{seed}/{n}")`, whether the campaign began with it or went
on there. What `play` has made is gone when it is closed.
"""
