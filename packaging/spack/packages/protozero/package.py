# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *

try:  # Spack 1.0 has moved it there
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Protozero(CMakePackage):
    """Minimalistic protocol buffer decoder and encoder in C++: headers alone."""

    homepage = "https://github.com/mapbox/protozero"
    url = "https://github.com/mapbox/protozero/archive/v1.8.1.tar.gz"

    license("BSD-2-Clause")

    version("1.8.1", sha256="6c7a896f1dc08435e8cd4f3780ff688cd0bfce6890599b755f6f3cb36398dc25")

    depends_on("cxx", type="build")
    depends_on("cmake@3.5:", type="build")

    def cmake_args(self):
        return [self.define("BUILD_TESTING", False)]
