-- The rc file of a generation: it says where Lmod's spider cache lies. lmod.py puts the two paths in.
scDescriptT = {
  {
    ["dir"] = "@SPIDER@",
    ["timestamp"] = "@TIMESTAMP@",
  },
}
