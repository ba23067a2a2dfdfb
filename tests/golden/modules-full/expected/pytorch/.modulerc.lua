-- Written by envmgr. Do not edit: change the recipes and build again.
module_version("pytorch/2.1-cuda11.8", "default")
hide_version("pytorch/1.13")
