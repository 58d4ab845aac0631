// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/frame_owner.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/command_text.hpp"
#include "profile_builder.hpp"

namespace clusterprof::report {
namespace {

using testing::ProfileBuilder;

constexpr const char* kPythonProgram = "/usr/bin/python3.11";

class Owners : public ::testing::Test {
 protected:
  Owner python(const std::string& file) { return FrameOwners(b.data).of(b.python("f", file, 1, 1)); }
  Owner native(const std::string& module, const std::string& file = "") {
    return FrameOwners(b.data).of(b.native("f", module, file, file.empty() ? 0 : 1));
  }
  ProfileBuilder b{1};
};

TEST_F(Owners, InstalledPackagesAndTheStandardLibraryAreLibraries) {
  for (const char* file :
       {"/venv/lib/python3.11/site-packages/numpy/core/multiarray.py",
        "/usr/lib/python3/dist-packages/six.py", "/usr/lib/python3.11/threading.py",
        "/opt/conda/lib/python3.12/selectors.py", "/home/u/.pyenv/versions/3.13.0/lib/python3.13t/queue.py",
        "<frozen importlib._bootstrap>", "<__array_function__ internals>", "<string>",
        "<attrs generated init Point>",
        "/home/u/project/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"})
    EXPECT_EQ(python(file), Owner::kLibrary) << file;
  for (const char* file :
       {"/home/u/train.py", "train.py", "/scratch/lib/model.py", "/home/u/python3.11/a.py",
        "/home/u/site-packages.py", "<stdin>", "<ipython-input-3-abc>", "/home/u/mpi4py/run.py"})
    EXPECT_EQ(python(file), Owner::kOwn) << file;
}

TEST_F(Owners, NativeCodeIsJudgedByItsModuleAndHeadersByTheirDirectory) {
  for (const char* module :
       {"/usr/lib/x86_64-linux-gnu/libopenblas.so.0", "/lib/x86_64-linux-gnu/libc.so.6",
        "/opt/cray/lib/libsci.so", "/home/u/sw/openmpi/lib/libmpi.so.40", "[vdso]",
        "/sw/gcc/12/lib64/libstdc++.so.6", "/home/u/sw/lib/libopenblas.so.0",
        "/venv/lib/python3.11/site-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"})
    EXPECT_EQ(native(module), Owner::kLibrary) << module;
  for (const char* module : {"/home/u/build/solver", "/home/u/build/libcore.so", "/home/u/libmesh.so",
                             "[jit]", "/scratch/python3d/solver", "/home/u/python3d"})
    EXPECT_EQ(native(module), Owner::kOwn) << module;
  for (const char* module :
       {kPythonProgram, "/opt/conda/bin/python3.12", "/usr/lib/libpython3.11.so.1.0", "/usr/bin/python"})
    EXPECT_EQ(native(module), Owner::kInterpreter) << module;
  EXPECT_EQ(native("/home/u/build/solver", "/usr/include/c++/12/bits/stl_algo.h"), Owner::kLibrary);
  EXPECT_EQ(native("/home/u/build/solver", "/sw/gcc/include/c++/13/vector"), Owner::kLibrary);
  EXPECT_EQ(native("/home/u/build/solver", "../src/solver.cpp"), Owner::kOwn);
  EXPECT_EQ(native("/usr/lib/libopenblas.so.0", "driver/level3.c"), Owner::kLibrary);
}

TEST_F(Owners, TheProgramsDirectoryAndWhatIsNamedAreOwn) {
  EXPECT_EQ(native("/opt/app/solver"), Owner::kLibrary);
  b.data.run.own = {"/opt/app/", "/venv/lib/python3.11/site-packages/mypkg", "/proj"};
  EXPECT_EQ(native("/opt/app/solver"), Owner::kOwn);
  EXPECT_EQ(native("/opt/app/lib/libcore.so"), Owner::kOwn);
  EXPECT_EQ(native("/opt/application/solver"), Owner::kLibrary);
  EXPECT_EQ(python("/venv/lib/python3.11/site-packages/mypkg/model.py"), Owner::kOwn);
  EXPECT_EQ(python("/venv/lib/python3.11/site-packages/mypkg2/model.py"), Owner::kLibrary);
  EXPECT_EQ(python("/proj/venv/lib/python3.11/site-packages/numpy/linalg.py"), Owner::kLibrary)
      << "what is installed below a directory of one's own";
}

TEST_F(Owners, AnInstalledPackageThatIsTheProgramIsOwn) {
  const char* const file = "/usr/lib/python3/dist-packages/solverkit/core/step.py";
  const auto with = [&](std::vector<std::string> command) {
    b.data.run.command = std::move(command);
    return python(file);
  };
  EXPECT_EQ(with({"python3", "-m", "solverkit"}), Owner::kOwn);
  EXPECT_EQ(with({"/usr/bin/python3.11", "-u", "-W", "error", "-m", "solverkit.cli", "--n", "3"}),
            Owner::kOwn);
  EXPECT_EQ(with({"python3", "-msolverkit"}), Owner::kOwn);
  EXPECT_EQ(with({"python3", "-m", "mpi4py", "-m", "solverkit"}), Owner::kOwn);
  EXPECT_EQ(with({"/usr/bin/solverkit", "run"}), Owner::kOwn);
  EXPECT_EQ(with({"numactl", "-l", "python3", "-m", "solverkit"}), Owner::kOwn);
  EXPECT_EQ(with({"python3", "train.py", "-m", "solverkit"}), Owner::kLibrary);
  EXPECT_EQ(with({"python3", "-m", "other"}), Owner::kLibrary);
  EXPECT_EQ(with({"python3", "-c", "import solverkit"}), Owner::kLibrary);
  EXPECT_EQ(with({}), Owner::kLibrary);
}

TEST_F(Owners, TheProgramsOfAllRanksOfAnMpmdJobAreOwn) {
  const char* const file = "/usr/lib/python3/dist-packages/solverkit/core/step.py";
  b.data.run.command = {"./ocean"};
  EXPECT_EQ(python(file), Owner::kLibrary);
  b.data.ranks.back().command = b.string(command_text({"python3", "-m", "solverkit"}));
  EXPECT_EQ(python(file), Owner::kOwn);
  EXPECT_EQ(python("<string>"), Owner::kLibrary);
  b.data.ranks.back().command = b.string(command_text({"python3", "-c", "work()"}));
  EXPECT_EQ(python("<string>"), Owner::kOwn);
}

TEST_F(Owners, CodeOnTheCommandLineIsOwn) {
  EXPECT_EQ(python("<string>"), Owner::kLibrary) << "made by namedtuple, exec";
  b.data.run.command = {"python3", "-uc", "work()"};
  EXPECT_EQ(python("<string>"), Owner::kOwn);
}

TEST_F(Owners, PackagesHaveTheNamesOfTheirUsers) {
  const FrameOwners owners(b.data);
  const auto of = [&](const shard::Frame& frame) { return std::string(owners.package(frame)); };
  EXPECT_EQ(of(b.python("f", "/v/lib/python3.11/site-packages/numpy/core/multiarray.py", 1, 1)), "numpy");
  EXPECT_EQ(of(b.python("f", "/usr/lib/python3.11/threading.py", 1, 1)), "threading");
  EXPECT_EQ(of(b.python("f", "/usr/lib/python3.11/concurrent/futures/thread.py", 1, 1)), "concurrent");
  EXPECT_EQ(of(b.python("f", "<frozen importlib._bootstrap>", 1, 1)), "importlib");
  EXPECT_EQ(of(b.python("f", "<__array_function__ internals>", 1, 1)), "numpy");
  EXPECT_EQ(of(b.native("f", "/usr/lib/x86_64-linux-gnu/libopenblas.so.0")), "libopenblas");
  EXPECT_EQ(of(b.native("f", "/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so")),
            "_ssl");
  EXPECT_EQ(of(b.native("std::sort<int*>(int*)", "/u/solver", "/usr/include/c++/12/bits/stl_algo.h", 9)), "");
}

TEST(Names, OfModulesWithoutSymbols) {
  EXPECT_TRUE(has_no_name("_ssl.so+0x12", "/x/_ssl.so"));
  EXPECT_TRUE(has_no_name("", "/x/_ssl.so"));
  EXPECT_FALSE(has_no_name("ssl_read", "/x/_ssl.so"));
  EXPECT_FALSE(has_no_name("operator+0x", ""));
}

}  // namespace
}  // namespace clusterprof::report
