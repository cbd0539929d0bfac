"""setup.py: builds the wheel: CMake makes libmdl.so and the program mdl, which go beside the Python files.

It is built in build/python of the repository, with the words of CMAKE_ARGS; or MDL_BUILD names a directory where it is
built already. The directory above this one must be the repository: there is no source distribution.
"""

import os
import re
import shlex
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    """That of CMakeLists.txt."""
    path = os.path.join(ROOT, "CMakeLists.txt")
    if not os.path.exists(path):
        raise SystemExit(f"there is no {path}: build the package from a clone of the repository")
    with open(path, encoding="utf-8") as file:
        return re.search(r"project\(mdl VERSION ([0-9.]+)", file.read()).group(1)


def compiled():
    """Builds, and says where."""
    build = os.path.join(ROOT, "build", "python")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    words = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DMDL_TESTS=OFF", *words], check=True)
    subprocess.run(["cmake", "--build", build, "-j", jobs, "--target", "libmdl_shared", "mdl"], check=True)
    return build


class Build(build_py):
    """The Python files, and what CMake builds."""

    def run(self):
        super().run()
        build = os.environ.get("MDL_BUILD") or compiled()
        to = os.path.join(self.build_lib, "mdl")
        for name in ("libmdl.so", "mdl"):
            shutil.copy(os.path.join(build, name), os.path.join(to, name))  # what a link stands for
            subprocess.run(["strip", "--strip-unneeded", os.path.join(to, name)], check=False)


class Wheel(bdist_wheel):
    """For any Python 3, and this machine's kind."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class Binary(Distribution):
    """A package that is not pure Python."""

    def has_ext_modules(self):
        return True


setup(version=version(), cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
