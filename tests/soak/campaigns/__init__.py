"""A campaign is a module: its docstring says what it shows, ROUNDS how many rounds it has, `play` plays them.

`play(seed, first, last)` yields a few words after each round from `first` to `last`, both counted from 1, and raises where a
round shows a fault. Round n of a seed is the same whether the campaign began with it or went on there; `random.Random` takes
`f"{seed}/{n}"`. What `play` has made is gone when it is closed.
"""
