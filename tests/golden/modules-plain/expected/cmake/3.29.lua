-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

help("cmake/3.29: Makes build files\010\010For Python packages of your own, while this module is loaded:\010  python -m venv --system-site-packages ~/venvs/cmake-3.29\010  ~/venvs/cmake-3.29/bin/python -m pip install PACKAGE\010\010Loading it replaces any other loaded module of family python.\010\010Installed in /cluster/envmgr/store/cmake/3.29-9f86d081\010")
whatis("Name: cmake")
whatis("Version: 3.29")
whatis("Description: Makes build files")
family("python")
pushenv("CMAKE_ROOT", "/cluster/envmgr/store/cmake/3.29-9f86d081")
pushenv("ENVMGR_CMAKE_DIGEST", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
prepend_path("PATH", "/cluster/envmgr/store/cmake/3.29-9f86d081/bin")
