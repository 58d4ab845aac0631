// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/demangle.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "collector/names/demangle_cython.hpp"
#include "collector/names/demangle_rust.hpp"

namespace clusterprof::collector {
namespace {

TEST(DemangleTest, DemanglesCxx) {
  EXPECT_EQ(readable_name("_ZN4grid5sweepEl"), "grid::sweep(long)");
  EXPECT_EQ(readable_name("_ZN4grid5FieldC2Ev"), "grid::Field::Field()");
  EXPECT_EQ(readable_name("_Z4stepi.constprop.0.isra.0"), "step(int)");
  EXPECT_EQ(readable_name("_Z4stepi.part.0.cold"), "step(int)");
  EXPECT_EQ(readable_name("_Z4stepi.llvm.1234567"), "step(int)");
  EXPECT_EQ(readable_name("_Z4stepi._omp_fn.1"), "step(int)._omp_fn.1");
  EXPECT_EQ(readable_name("_Z9short"), "_Z9short");
}

TEST(DemangleTest, PlainNamesStay) {
  for (const char* const name :
       {"main", "sgemm_", "inner.0", "MAIN__", "_start", "__libc_start_main", ".cold", "__MOD_", "__a_MOD_",
        "_R", "_Reset", "_RNvXdamaged", "a.cold.c", ""})
    EXPECT_EQ(readable_name(name), name);
  EXPECT_EQ(readable_name("free_all.lto_priv.3"), "free_all");
  EXPECT_EQ(readable_name("step._omp_fn.0"), "step._omp_fn.0");
}

TEST(DemangleTest, VersionsOfSymbolsAreLeftOut) {
  EXPECT_EQ(without_symbol_version("clock_nanosleep@@GLIBC_2.17"), "clock_nanosleep");
  EXPECT_EQ(without_symbol_version("memcpy@GLIBC_2.2.5"), "memcpy");
  EXPECT_EQ(without_symbol_version("main"), "main");
  EXPECT_EQ(without_symbol_version("@plt"), "@plt");
}

TEST(DemangleTest, DemanglesFortran) {
  EXPECT_EQ(readable_name("__kernels_MOD_relax"), "kernels::relax");
  EXPECT_EQ(readable_name("__kernels_MOD_relax.constprop.0"), "kernels::relax");
  EXPECT_EQ(readable_name("__my_kernels_MOD_relax_all._omp_fn.0"), "my_kernels::relax_all._omp_fn.0");
}

// From the specification (RFC 2603) and from compiled programs.
TEST(DemangleTest, DemanglesRustV0) {
  EXPECT_EQ(readable_name("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
  EXPECT_EQ(readable_name("_RINvNtCs1aBWwuGybLu_1k6solver4eachNCNvB4_4main0EB4_"),
            "k::solver::each::<k::main::{closure#0}>");
  EXPECT_EQ(readable_name("_RNvXNtCs1aBWwuGybLu_1k6solverINtB2_4GriddENtB2_4Step4stepB4_"),
            "<k::solver::Grid<f64> as k::solver::Step>::step");
  EXPECT_EQ(readable_name("_RNvMNtCs1aBWwuGybLu_1k6solverNtB2_4Grid3new"), "<k::solver::Grid>::new");
  EXPECT_EQ(readable_name("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_"), "cc::spawn::{closure#0}::{closure#0}");
  EXPECT_EQ(
      readable_name(
          "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std"),
      "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fAhj8_E"), "a::f::<[u8; 8]>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fKin5_E"), "a::f::<-5>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fKb1_E"), "a::f::<true>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fKc76_E"), "a::f::<'v'>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fTlmEE"), "a::f::<(i32, u32)>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fRShE"), "a::f::<&[u8]>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fQShE"), "a::f::<&mut [u8]>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fFG_RL0_hEuE"), "a::f::<for<'a> fn(&'a u8)>");
  EXPECT_EQ(readable_name("_RINvCs1234_1a1fFUKCPhElE"), "a::f::<unsafe extern \"C\" fn(*const u8) -> i32>");
  EXPECT_EQ(readable_name("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y"),
            "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_"
            "\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_\u10e1\u10d0\u10d3\u10d8\u10da\u10d8");
  EXPECT_EQ(readable_name("_RNvCs1234_1a1f.llvm.123"), "a::f");
}

TEST(DemangleTest, DamagedRustV0StaysAsItIs) {
  const std::string name = "_RINvNtCs1aBWwuGybLu_1k6solver4eachNCNvB4_4main0EB4_";
  for (std::size_t bytes = 3; bytes < name.size(); ++bytes) {
    const std::string cut = name.substr(0, bytes);
    const std::string text = readable_name(cut);  // without the last crate it is a name still
    EXPECT_TRUE(text == cut || text.starts_with("k::solver::each::<k::main::{closure#0}>")) << cut;
  }
  for (const char* const damaged :
       {"_RNvCs1234_99x3foo", "_RB_", "_RNvB1_3foo", "_RNvC999999999999999999999_a1b", "_RINvC1a1fBz_E",
        "_RNvCszzzzzzzzzzzzzzzzzzzzzz_1a1b", "_RNvCs_u1_1b"})
    EXPECT_EQ(readable_name(damaged), damaged);
  // Types of types: too deep, or a text that doubles with every reference.
  EXPECT_EQ(demangle_rust_v0("_RIC1a" + std::string(100'000, 'R') + "hE"), std::nullopt);
  std::string doubling = "_RINvC1a1fTuuE";
  const auto base_62 = [](std::size_t value) {
    std::string text;
    if (value == 0) return std::string("_");
    for (--value;; value /= 62) {
      text.insert(text.begin(), "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % 62]);
      if (value < 62) break;
    }
    return text + "_";
  };
  std::size_t last = 8;  // of "Tuu" behind "_R"
  for (int i = 0; i < 60; ++i) {
    const std::size_t here = doubling.size() - 2;
    doubling += "TB" + base_62(last) + "B" + base_62(last) + "E";
    last = here;
  }
  EXPECT_EQ(demangle_rust_v0(doubling + "E"), std::nullopt);
}

TEST(DemangleTest, DemanglesLegacyRust) {
  EXPECT_EQ(readable_name("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
  EXPECT_EQ(readable_name(
                "_ZN60_$LT$k..solver..Grid$LT$T$GT$$u20$as$u20$k..solver..Step$GT$4step17h3d37fa2467da7616E"),
            "<k::solver::Grid<T> as k::solver::Step>::step");
  EXPECT_EQ(readable_name("_ZN1k4main28_$u7b$$u7b$closure$u7d$$u7d$17h5d37fa2467da7616E.llvm.77"),
            "k::main::{{closure}}");
  // C++ that looks like it, but has no hash.
  EXPECT_EQ(readable_name("_ZN3foo17habcdefghijklmnopE"), "foo::habcdefghijklmnop");
}

TEST(DemangleTest, DemanglesCython) {
  EXPECT_EQ(readable_name("__pyx_pw_4heat_1run"), "heat.run");
  EXPECT_EQ(readable_name("__pyx_pf_4heat_2run_all.constprop.0"), "heat.run_all");
  EXPECT_EQ(readable_name("__pyx_pf_4heat_run"), "heat.run");
  EXPECT_EQ(readable_name("__pyx_f_4heat_4Grid_sweep"), "heat.Grid.sweep");
  EXPECT_EQ(readable_name("__pyx_pw_4heat_4Grid_3sweep"), "heat.Grid.sweep");
  EXPECT_EQ(readable_name("__pyx_gb_4heat_3run_2generator"), "heat.run.generator");
  EXPECT_EQ(readable_name("__pyx_pw_4heat_4294967297run"), "__pyx_pw_4heat_4294967297run");  // no number
  EXPECT_EQ(readable_name("__Pyx_PyObject_Call"), "__Pyx_PyObject_Call");
  EXPECT_EQ(readable_name("__pyx_pymod_exec_heat"), "__pyx_pymod_exec_heat");
}

TEST(DemangleTest, CythonNamesWithTwoReadings) {
  // The second function of the module, "do_step", or the first one of a class "do".
  const std::string body = "__pyx_pf_4heat_2do_step";
  EXPECT_EQ(readable_name(body), body);
  std::set<std::string, std::less<>> symbols;
  const NameContext context{"heat", [&](std::string_view name) { return symbols.contains(name); }};
  EXPECT_EQ(readable_name(body, context), body);
  symbols = {"__pyx_pw_4heat_3do_step"};
  EXPECT_EQ(readable_name(body, context), "heat.do_step");
  symbols = {"__pyx_pw_4heat_2do_1step"};
  EXPECT_EQ(readable_name(body, context), "heat.do.step");
  symbols = {"__pyx_pw_4heat_3do_step", "__pyx_pw_4heat_2do_1step"};
  EXPECT_EQ(readable_name(body, context), body);
  // A package, by the name of the file; a class, by its allocator.
  EXPECT_EQ(readable_name("__pyx_pw_3sim_4heat_1run", {}), "sim.heat.run");
  EXPECT_EQ(readable_name("__pyx_pw_3sim_5waves_1run", {}), "__pyx_pw_3sim_5waves_1run");
  EXPECT_EQ(readable_name("__pyx_pw_3sim_5waves_1run", {"waves", {}}), "sim.waves.run");
  symbols = {"__pyx_tp_new_4heat_Field"};
  EXPECT_EQ(readable_name("__pyx_pw_4heat_5Field_1sweep", context), "heat.Field.sweep");
}

}  // namespace
}  // namespace clusterprof::collector
