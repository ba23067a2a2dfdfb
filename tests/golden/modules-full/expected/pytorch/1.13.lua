-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

help("pytorch/1.13: Tensors and neural networks\010\010pytorch/1.13 is deprecated and goes away on 2025-06-30: use pytorch/2.1-cuda11.8\010\010Installed in /cluster/envmgr/store/pytorch/1.13-00aa11bb\010")
whatis("Name: pytorch")
whatis("Version: 1.13")
whatis("Description: Tensors and neural networks")
whatis("Deprecated: pytorch/1.13 is deprecated and goes away on 2025-06-30: use pytorch/2.1-cuda11.8")
if mode() == "load" then
  LmodMessage("pytorch/1.13 is deprecated and goes away on 2025-06-30: use pytorch/2.1-cuda11.8")
end
pushenv("PYTORCH_ROOT", "/cluster/envmgr/store/pytorch/1.13-00aa11bb")
pushenv("ENVMGR_PYTORCH_DIGEST", "00aa11bb884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
