"""EasyBuild as it was released, of the version that recipes are locked with when they name none: `envmgr lock` asks no index for it.

A new version gets its rows from `envmgr lock` of a recipe that names it, which asks the index.
"""

from __future__ import annotations

from envmgr.backends.easybuild.lock import EasyBuildFile
from envmgr.wheels.settings import PUBLIC_FILES

CONTENTS = "3e6100ec664c3a14e0c6dc5c78f97c383816c8931f4a95fcd581c993a7300047"
"""`contents_sum` of what these files install."""

FILES = (
    EasyBuildFile(
        package="easybuild-framework",
        version="5.4.1",
        name="easybuild_framework-5.4.1.tar.gz",
        sha256="18c7cb3cdb448a2ec9b4f9cdc38517b5f9ca1b63b5691f1589f67f114958c2c9",
        url=f"{PUBLIC_FILES}/packages/3e/94/2f227a398b92c222711d91230cc4f37c57a56848eb63470d4d759f2f96b8/easybuild_framework-5.4.1.tar.gz",
    ),
    EasyBuildFile(
        package="easybuild-easyblocks",
        version="5.4.1",
        name="easybuild_easyblocks-5.4.1.tar.gz",
        sha256="ec76f56bfb6398ecb863dfc456a15aacc8da8c1ebf21e560a1410d8210825386",
        url=f"{PUBLIC_FILES}/packages/27/9f/b9d32949a745dd0d3e46c90f10dd4e2998becf6bdee14e74522d8228f430/easybuild_easyblocks-5.4.1.tar.gz",
    ),
    EasyBuildFile(
        package="easybuild-easyconfigs",
        version="5.4.1",
        name="easybuild_easyconfigs-5.4.1.tar.gz",
        sha256="9b0407a0dd19d4c1ccfd2735392df0d22a09738254b10fc3ed7cf826d44c47c2",
        url=f"{PUBLIC_FILES}/packages/9b/2f/8d8a0fa988a6a96e2231a31560ab691c43e053c6a325016c13b32a8e5d10/easybuild_easyconfigs-5.4.1.tar.gz",
    ),
    EasyBuildFile(
        package="setuptools",
        version="84.2.1",
        name="setuptools-84.2.1-py3-none-any.whl",
        sha256="ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2",
        url=f"{PUBLIC_FILES}/packages/ef/55/6dc6d6bb953bdfc52519a0059592c52b6e3b8ad51cf8256dffceb55b0610/setuptools-84.2.1-py3-none-any.whl",
    ),
)
