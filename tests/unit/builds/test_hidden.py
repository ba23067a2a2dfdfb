"""What may not hide a command of the system, and that nothing which shipped recipes are known to bring does."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends import get_backend
from envmgr.backends.conda.judging import BRINGERS
from envmgr.backends.container.input import ALWAYS
from envmgr.builds.install import require_none_hidden
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.catalog.shell_rules import COMMANDS
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from tests.helpers.shipped import LOCKED, ROOT

_PYTHON = "python python3 python3-config pip pip3 pydoc pydoc3 idle3 2to3"
_BZIP2 = "bzip2 bunzip2 bzcat bzcmp bzdiff bzgrep bzip2recover bzless bzmore"
_CUDA = "nvcc ptxas fatbinary nvlink cuobjdump nvdisasm nvprune bin2c cudafe++ cuda-gdb compute-sanitizer nsys ncu"
_NCURSES = "clear captoinfo infocmp infotocap reset tabs tic toe tput tset ncursesw6-config"
_KRB5 = "kinit klist kdestroy kpasswd kswitch ksu kvno krb5-config gss-client uuclient sclient"
_MPI = "mpicc mpicxx mpifort mpiexec mpirun"
_OPENSSL = "openssl c_rehash"
_TK = "tclsh tclsh8.6 wish wish8.6"
_XZ = "xz xzcat xzcmp xzdec xzdiff xzgrep xzless xzmore unxz lzma lzcat lzmadec unlzma lzmainfo"
_ZSTD = "zstd zstdcat zstdgrep zstdless zstdmt unzstd"
_CURL = "curl curl-config"
_FONTS = "fc-cache fc-list fc-match freetype-config"
_TIFF = "tiffinfo tiffcp tiff2pdf fax2tiff cjpeg djpeg jpegtran rdjpgcom wrjpgcom pngfix png-fix-itxt"
_XML = "xml2-config xmlcatalog xmllint xsltproc"
_JUPYTER = "jupyter jupyter-lab jupyter-notebook jupyter-console ipython ipython3 jlpm"
# What packages of shipped locks put on PATH. Source: the manual pages and `make install` of each project, console scripts of the wheels, the
# `bin` of an Anaconda installer; from memory where no package could be had, so it can lack a program, and none is here that is not ordinary.
PROGRAMS = {
    "Anaconda3": f"{_PYTHON} {_BZIP2} {_NCURSES} {_KRB5} {_OPENSSL} {_TK} {_XZ} {_ZSTD} {_CURL} {_FONTS} {_TIFF} {_XML} {_JUPYTER} conda activate "
    "deactivate anaconda anaconda-navigator spyder sqlite3 sqldiff mysql mysqldump perror replace patch patchelf rg jq bsdtar bsdcpio bsdcat "
    "gdbus gio gsettings glib-mkenums dbus-daemon dbus-send dbus-launch gst-launch-1.0 qmake moc uic pcregrep lz4 lz4cat unlz4 isql odbcinst pg_config "
    "scrapy twistd trial conch cftp black flake8 pylint pytest sphinx-build cython numba dask bokeh chardetect keyring cookiecutter h5dump h5ls",
    "CUDA": _CUDA,
    "MPICH": f"{_MPI} mpichversion hydra_pmi_proxy parkill",
    "OpenMPI": f"{_MPI} ompi_info orted orterun oshrun shmemcc",
    "Python": _PYTHON,
    "accelerate": "accelerate accelerate-launch",
    "aom": "aomdec aomenc",
    "babel": "pybabel",
    "bzip2": _BZIP2,
    "c-ares": "adig ahost",
    "charset-normalizer": "normalizer",
    "cuda-cuobjdump": "cuobjdump",
    "cuda-nvcc-tools": _CUDA,
    "cuda-nvdisasm": "nvdisasm",
    "debugpy": "debugpy debugpy-adapter",
    "dav1d": "dav1d",
    "deepspeed": "deepspeed ds ds_bench ds_elastic ds_io ds_report ds_ssh dsr",
    "fairscale": "wgit",
    "flatbuffers": "flatc",
    "freetype": "freetype-config",
    "giflib": "gif2rgb gifbuild gifclrmp giffix giftext giftool",
    "google-auth-oauthlib": "google-oauthlib-tool",
    "hdf5": "h5cc h5c++ h5fc h5copy h5diff h5dump h5import h5ls h5perf_serial h5repack h5repart h5stat",
    "hjson": "hjson",
    "httpx": "httpx",
    "huggingface-hub": "hf huggingface-cli tiny-agents",
    "icu": "derb genbrk gencfu gencnval gendict genrb icuinfo makeconv pkgdata uconv",
    "idna": "idna",
    "ipyparallel": "ipcluster ipcontroller ipengine",
    "ipython": "ipython ipython3",
    "json5": "pyjson5",
    "jsonpointer": "jsonpointer",
    "jsonschema": "jsonschema",
    "jupyter-core": "jupyter jupyter-migrate jupyter-troubleshoot",
    "jupyterlab": _JUPYTER,
    "keyutils": "keyctl",
    "krb5": _KRB5,
    "lcms2": "jpgicc linkicc psicc tificc transicc",
    "ld_impl_linux-64": "x86_64-conda-linux-gnu-ld",
    "libavif16": "avifdec avifenc",
    "libcap": "capsh getcap getpcaps setcap",
    "libcurl": "curl-config",
    "libexpat": "xmlwf",
    "libgpg-error": "gpg-error gpgrt-config yat2m",
    "libgrpc": "grpc_cpp_plugin grpc_python_plugin",
    "libhwloc": "hwloc-bind hwloc-calc hwloc-info hwloc-ls lstopo lstopo-no-graphics",
    "libiconv": "iconv",
    "libjpeg-turbo": "cjpeg djpeg jpegtran rdjpgcom tjbench wrjpgcom",
    "libheif": "heif-dec heif-enc heif-info",
    "libnl": "genl-ctrl-list idiag-socket-details nf-ct-list nl-route-list nl-link-list",
    "libpng": "libpng16-config png-fix-itxt pngfix",
    "libprotobuf": "protoc",
    "libtiff": _TIFF,
    "libxml2": _XML,
    "lz4-c": "lz4 lz4c lz4cat unlz4",
    "markdown": "markdown_py",
    "markdown-it-py": "markdown-it",
    "mpich": f"{_MPI} hydra_pmi_proxy mpichversion",
    "nbconvert": "jupyter-nbconvert jupyter-dejavu",
    "ncurses": _NCURSES,
    "ninja": "ninja",
    "notebook": "jupyter-notebook",
    "numba": "numba",
    "numpy": "f2py numpy-config",
    "openjpeg": "opj_compress opj_decompress opj_dump",
    "openssl": _OPENSSL,
    "pip": "pip pip3",
    "pybind11": "pybind11-config",
    "py-cpuinfo": "cpuinfo",
    "pygments": "pygmentize",
    "pytensor": "pytensor-cache",
    "python": _PYTHON,
    "pytorch": "torchrun convert-onnx-to-caffe2 convert-caffe2-to-onnx",
    "rav1e": "rav1e",
    "rdma-core": "ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong rping ucmatose udaddy rdma_client rdma_server mckey rcopy rstream "
    "cmtime ibaddr ibdiagnet ibhosts iblinkinfo ibnetdiscover ibping ibstat ibstatus perfquery saquery sminfo smpquery umad_compile_test",
    "rsa": "pyrsa-decrypt pyrsa-encrypt pyrsa-keygen pyrsa-sign",
    "send2trash": "send2trash",
    "svt-av1": "SvtAv1EncApp",
    "sympy": "isympy",
    "tensorboard": "tensorboard",
    "tensorflow": "tensorboard tf_upgrade_v2 saved_model_cli toco tflite_convert import_pb_to_tensorboard",
    "tensorflow-base": "tf_upgrade_v2 saved_model_cli toco tflite_convert",
    "tk": _TK,
    "torch": "torchrun torchfrtrace",
    "tqdm": "tqdm",
    "triton": "proton proton-viewer",
    "websocket-client": "wsdump",
    "wheel": "wheel",
    "x265": "x265",
    "xz": _XZ,
    "zstd": _ZSTD,
}


@pytest.mark.parametrize("entry", ["pytorch-ngc/24.08", "tensorflow-ngc/24.08"])
def test_nothing_that_a_shipped_image_brings_is_refused(entry: str, tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / entry / "recipe.yaml")
    for name in (*recipe.input["commands"], *ALWAYS):
        (tmp_path / name).touch()
    environment = [EnvOp(kind="prepend", name="PATH", value=str(tmp_path))]
    require_none_hidden(parse_entry(entry), environment, recipe, tmp_path)


@pytest.mark.parametrize("entry", LOCKED)
def test_nothing_that_a_shipped_recipe_is_known_to_bring_is_refused(entry: str, tmp_path: Path) -> None:
    site = load_site(None, {"HOME": str(tmp_path)})
    found = open_catalog(site).find(parse_entry(entry))
    recipe = found.recipe()
    lock = get_backend(recipe.backend).load_lock(found.entry, recipe, found.folder, site)
    brought = [name for text in map(PROGRAMS.get, lock.packages) for name in (text or "").split()]
    for name in brought:
        (tmp_path / name).touch()
    environment = [EnvOp(kind="prepend", name="PATH", value=str(tmp_path))]
    require_none_hidden(found.entry, environment, recipe, tmp_path)
    (tmp_path / "sudo").touch()
    with pytest.raises(EnvmgrError, match="hides commands of the system or of shells: sudo"):
        require_none_hidden(found.entry, environment, recipe, tmp_path)


def test_what_the_recipe_itself_puts_on_path_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "libexec").mkdir()
    (tmp_path / "libexec/ssh").touch()
    fields = {"backend": "wheels", "input": {}, "environment": {"prepend": {"PATH": ["${root}/libexec"]}}}
    recipe = Recipe.model_validate(fields)
    with pytest.raises(EnvmgrError, match="hides commands of the system or of shells: ssh"):
        require_none_hidden(Entry("some", "1.0"), (), recipe, tmp_path)
    accepted = Recipe.model_validate({**fields, "accept": {"hidden-commands": "ssh: a newer one"}})
    require_none_hidden(Entry("some", "1.0"), (), accepted, tmp_path)


def test_table_of_programs_is_of_packages_that_shipped_locks_have(tmp_path: Path) -> None:
    site = load_site(None, {"HOME": str(tmp_path)})
    there: set[str] = set()
    for each in open_catalog(site).entries():
        if str(each.entry) not in LOCKED:
            continue
        recipe = each.recipe()
        there |= get_backend(recipe.backend).load_lock(each.entry, recipe, each.folder, site).packages.keys()
    assert PROGRAMS.keys() - there == set()


def test_what_guards_an_account_starts_jobs_or_is_a_shell_is_in_the_table() -> None:
    guarded = "sudo su ssh scp sftp login passwd module ml cd ls grep find echo test command exit export source eval sbatch srun salloc scancel squeue"
    assert {*guarded.split(), *["envmgr", "mount", "kill", "sh", "bash", "csh", "zsh"]} <= COMMANDS
    assert {name for text in BRINGERS.values() for name in text.split(", ")} <= COMMANDS
