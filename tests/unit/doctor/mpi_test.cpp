// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

const std::string kLib = "/opt/cp/lib/clusterprof/";

struct Mpi : testing::Test {
  Mpi() {
    system.variables["PATH"] = "/usr/bin";
    for (const char* command : {"mpirun", "mpiexec", "mpicc", "python3"})
      system.add(std::string("/usr/bin/") + command);
    for (const char* preload :
         {"libclusterprof_mpi_openmpi.so", "libclusterprof_mpi_mpich.so", "libclusterprof_mpi_abi.so"})
      system.add(kLib + preload);
    for (const char* program : {"merge-openmpi", "merge-mpich"}) system.add(kLibexec + program);
    system.libraries["libmpi.so.40"] = "/lib/libmpi.so.40";
    system.says("/usr/bin/mpirun --version",
                "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n");
    system.says("/usr/bin/mpiexec --version", "mpiexec (Open MPI) 4.1.4\n");
    system.says("/usr/bin/mpicc -show", "gcc -I/usr/lib/openmpi/include -L/usr/lib/openmpi/lib -lmpi\n");
    system.says("/usr/bin/python3 -c", kModule + "\n");
    system.needed[kModule] = {"libmpi.so.40", "libc.so.6"};
    system.says(kLibexec + "merge-openmpi --can-run", "");
    system.says(kLibexec + "merge-mpich --can-run", "");
  }
  const std::string kModule = "/usr/lib/python3/dist-packages/mpi4py/MPI.cpython-311.so";
  FakeSystem system;
};

TEST_F(Mpi, OfOneFamily) {
  auto checks = found_by(check_mpi, system);
  EXPECT_EQ(checks.at("mpi.libraries").found, "Open MPI (libmpi.so.40)");
  EXPECT_EQ(checks.at("mpi.preload").status, Status::kOk);
  EXPECT_EQ(checks.at("mpi.preload").found, "for Open MPI, MPICH, the MPI standard's ABI");
  checks = found_by(check_mpi_commands, system);
  for (const auto& [id, check] : checks) EXPECT_EQ(check.status, Status::kOk) << id;
  EXPECT_EQ(checks.at("mpi.launcher").found,
            "mpirun of Open MPI 4.1.4, mpiexec of Open MPI 4.1.4, mpicc of Open MPI");
  EXPECT_EQ(checks.at("mpi.mpi4py").found, "of /usr/bin/python3, linked to Open MPI (libmpi.so.40)");
  EXPECT_EQ(checks.at("mpi.mixed").found, "mpi4py, mpicc, mpiexec, mpirun of Open MPI");
  EXPECT_EQ(found_by(check_merging, system).at("mpi.merge").found, "with Open MPI");
}

TEST_F(Mpi, Mixed) {
  system.says("/usr/bin/mpirun --version",
              "HYDRA build details:\n    Version:                                 4.0.2\n");
  const auto checks = found_by(check_mpi_commands, system);
  EXPECT_EQ(checks.at("mpi.launcher").found,
            "mpirun of MPICH 4.0.2, mpiexec of Open MPI 4.1.4, mpicc of Open MPI");
  EXPECT_EQ(checks.at("mpi.mixed").status, Status::kWarn);
  EXPECT_EQ(checks.at("mpi.mixed").found, "mpi4py, mpicc, mpiexec of Open MPI, but mpirun of MPICH");
  EXPECT_NE(checks.at("mpi.mixed").costs.find("each rank is a job of its own"), std::string::npos);
}

TEST_F(Mpi, Products) {
  const std::pair<const char*, const char*> cases[] = {
      {"Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", "mpirun of Intel MPI 2021.9"},
      {"mpirun (Open MPI) 5.0.3\n", "mpirun of Open MPI 5.0.3"},
      {"prte (PRRTE) 3.0.5", "mpirun of Open MPI (PRRTE) 3.0.5"},
      {"something else", "mpirun of an unknown MPI"}};
  for (const auto& [said, expected] : cases) {
    system.says("/usr/bin/mpirun --version", said);
    EXPECT_TRUE(found_by(check_mpi_commands, system).at("mpi.launcher").found.starts_with(expected)) << said;
  }
  system.says("/usr/bin/mpicc -show", "gcc -I/opt/intel/include -lmpifort -lmpi -ldl");
  EXPECT_NE(found_by(check_mpi_commands, system).at("mpi.mixed").found.find("mpicc of MPICH"),
            std::string::npos);
}

TEST_F(Mpi, LauncherThatHangs) {
  system.hangs("/usr/bin/mpirun --version");
  const Check check = found_by(check_mpi_commands, system).at("mpi.launcher");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_TRUE(check.found.starts_with("/usr/bin/mpirun does not answer")) << check.found;
}

TEST_F(Mpi, NothingHere) {
  system.facts.clear();
  system.libraries.clear();
  const auto checks = found_by(check_mpi_commands, system);
  for (const auto& [id, check] : checks) EXPECT_EQ(check.status, Status::kOk) << id;
  EXPECT_EQ(checks.at("mpi.mpi4py").found, "no python3 in PATH");
  EXPECT_EQ(found_by(check_merging, system).at("mpi.merge").status, Status::kOk);
  // A module may bring any MPI.
  EXPECT_EQ(found_by(check_mpi, system).at("mpi.preload").status, Status::kWarn);
}

TEST_F(Mpi, PreloadThatDoesNotFit) {
  system.facts.erase(kLib + "libclusterprof_mpi_mpich.so");
  EXPECT_EQ(found_by(check_mpi, system).at("mpi.preload").status, Status::kOk);
  system.libraries["libmpich.so.12"] = "/lib/libmpich.so.12";
  const auto checks = found_by(check_mpi, system);
  EXPECT_EQ(checks.at("mpi.libraries").found, "Open MPI (libmpi.so.40), MPICH (libmpich.so.12)");
  EXPECT_EQ(checks.at("mpi.preload").status, Status::kFail);
  EXPECT_EQ(checks.at("mpi.preload").found, "for Open MPI, the MPI standard's ABI; missing for MPICH");
}

// A program of the standard's interface runs under the launcher of either family.
TEST_F(Mpi, StandardInterface) {
  system.libraries["libmpi_abi.so.1"] = "/lib/libmpi_abi.so.1";
  system.needed[kModule] = {"libmpi_abi.so.1"};
  auto checks = found_by(check_mpi, system);
  EXPECT_EQ(checks.at("mpi.libraries").found,
            "Open MPI (libmpi.so.40), the MPI standard's ABI (libmpi_abi.so.1)");
  EXPECT_EQ(checks.at("mpi.preload").status, Status::kOk);
  EXPECT_EQ(found_by(check_merging, system).at("mpi.merge").found, "with Open MPI");
  for (const char* launcher : {"mpirun (Open MPI) 4.1.4\n", "HYDRA build details:\n    Version: 5.0.2\n"}) {
    for (const char* command : {"mpirun", "mpiexec"})
      system.says(std::string("/usr/bin/") + command + " --version", launcher);
    system.says("/usr/bin/mpicc -show", "gcc");
    checks = found_by(check_mpi_commands, system);
    EXPECT_EQ(checks.at("mpi.mpi4py").found,
              "of /usr/bin/python3, linked to the MPI standard's ABI (libmpi_abi.so.1)");
    EXPECT_EQ(checks.at("mpi.mixed").status, Status::kOk) << launcher;
  }
  system.facts.erase(kLib + "libclusterprof_mpi_abi.so");
  checks = found_by(check_mpi, system);
  EXPECT_EQ(checks.at("mpi.preload").status, Status::kFail);
  EXPECT_EQ(checks.at("mpi.preload").found, "for Open MPI, MPICH; missing for the MPI standard's ABI");
}

TEST_F(Mpi, Mpi4py) {
  system.needed[kModule] = {"libmpi.so.41"};
  Check check = found_by(check_mpi_commands, system).at("mpi.mpi4py");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_NE(check.costs.find("libmpi.so.41 is not found"), std::string::npos);
  system.says("/usr/bin/python3 -c", "");
  check = found_by(check_mpi_commands, system).at("mpi.mpi4py");
  EXPECT_EQ(check.found, "not installed for /usr/bin/python3");
  EXPECT_EQ(check.status, Status::kOk);
  system.hangs("/usr/bin/python3 -c");
  EXPECT_EQ(found_by(check_mpi_commands, system).at("mpi.mpi4py").status, Status::kWarn);
}

TEST_F(Mpi, MergeProgramsThatCannotRun) {
  system.says(kLibexec + "merge-openmpi --can-run", "", 127,
              "merge-openmpi: error while loading shared libraries: libhwloc.so.15\nmore\n");
  Check check = found_by(check_merging, system).at("mpi.merge");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "merge-openmpi: error while loading shared libraries: libhwloc.so.15");
  system.facts.erase(kLibexec + "merge-openmpi");
  check = found_by(check_merging, system).at("mpi.merge");
  EXPECT_EQ(check.found, "not built for Open MPI");
  EXPECT_EQ(check.status, Status::kWarn);
}

}  // namespace
}  // namespace clusterprof::cli::doctor
