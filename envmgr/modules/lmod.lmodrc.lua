-- The rc file of a generation: it tells Lmod where its spider cache lies. lmod.py puts the two paths in.
scDescriptT = {
  {
    ["dir"] = "@SPIDER@",
    ["timestamp"] = "@TIMESTAMP@",
  },
}
