// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/settings.hpp"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>

#include "base/secrets.hpp"
#include "base/split.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::collector {
namespace {

namespace fs = std::filesystem;
using shard::Setting;
using shard::SettingKind;

constexpr std::size_t kMaxValueBytes = 256;
constexpr std::size_t kMaxCompilers = 4;
constexpr std::size_t kMaxGitLineBytes = 4096;
constexpr std::size_t kMaxPackedReferences = 1 << 20;

// Beginnings of names.
constexpr std::array<std::string_view, 59> kVariables = {
    // threads and numerical libraries
    "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "VECLIB_", "GOTO_", "FFTW_",
    // MPI and networks, without what launchers set anew for each job
    "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_coll", "OMPI_MCA_osc", "OMPI_MCA_io",
    "OMPI_MCA_mpi_", "OMPI_MCA_hwloc", "OMPI_MCA_rmaps", "OMPI_MCA_opal_", "MPICH_", "MPIR_CVAR_",
    "MPIR_PARAM_", "I_MPI_", "MV2_", "UCX_", "FI_", "PSM2_", "PSM3_", "HCOLL_", "SHARP_", "GLOO_", "NCCL_",
    "RCCL_",
    // devices
    "CUDA_", "CUBLAS_", "HIP_", "HSA_", "ROCR_", "GPU_",
    // Python and what runs in it
    "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONHASHSEED", "TORCH_", "PYTORCH_", "XLA_", "JAX_",
    // TensorFlow's; Terraform's begin with TF_, too, and hold credentials
    "TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_DISABLE_", "TF_ENABLE_", "TF_FORCE_", "TF_FP16_",
    "TF_GPU_", "TF_NUM_", "TF_USE_", "TF_XLA_",
    // memory
    "MALLOC_"};

bool is_hash(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// As git itself does: what others write is not followed. Anybody may make a folder with a `.git` in /tmp.
bool is_trusted(const struct stat& status) { return status.st_uid == ::geteuid() || status.st_uid == 0; }

struct FileEnd {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileEnd>;

// A file of git; none if it is no file, or others may have written it. Does not wait for a pipe's writer.
File open_trusted(const fs::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !is_trusted(status))
    return nullptr;
  File opened(::fdopen(file.get(), "r"));
  if (opened) (void)file.release();
  return opened;
}

// The next line without blanks at its end; longer ones in pieces. False: there is none.
bool next_line(std::FILE* file, std::string& line) {
  std::array<char, kMaxGitLineBytes> text;
  if (std::fgets(text.data(), static_cast<int>(text.size()), file) == nullptr) return false;
  line = text.data();
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
  return true;
}

// Empty: there is none.
std::string first_line(const fs::path& path) {
  const File file = open_trusted(path);
  std::string line;
  return file && next_line(file.get(), line) ? line : std::string();
}

// Of a reference that is not in a file of its own.
std::string packed_reference(const fs::path& git, const std::string& name) {
  const File file = open_trusted(git / "packed-refs");
  if (!file) return {};
  std::string line;
  for (std::size_t i = 0; i < kMaxPackedReferences && next_line(file.get(), line); ++i) {
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos && line.compare(blank + 1, std::string::npos, name) == 0)
      return line.substr(0, blank);
  }
  return {};
}

// The folder that has HEAD: `.git` itself, or of a worktree or submodule what a file of that name says.
fs::path git_folder(const fs::path& dot_git) {
  std::error_code error;
  if (fs::is_directory(dot_git, error)) return dot_git;
  constexpr std::string_view kMark = "gitdir: ";
  const std::string line = first_line(dot_git);
  if (!line.starts_with(kMark)) return {};
  const fs::path named = line.substr(kMark.size());
  return named.is_absolute() ? named : dot_git.parent_path() / named;
}

std::string head_of(const fs::path& git) {
  constexpr std::string_view kMark = "ref: ";
  const std::string head = first_line(git / "HEAD");
  if (is_hash(head)) return head;
  if (!head.starts_with(kMark)) return {};
  const std::string name = head.substr(kMark.size());
  if (name.find("..") != std::string::npos || name.starts_with('/')) return {};
  // Worktrees share references.
  fs::path common = git;
  if (const std::string line = first_line(git / "commondir"); !line.empty())
    common = fs::path(line).is_absolute() ? fs::path(line) : git / line;
  for (const fs::path& folder : {git, common})
    if (const std::string hash = first_line(folder / name); is_hash(hash)) return hash;
  const std::string packed = packed_reference(common, name);
  return is_hash(packed) ? packed : "";
}

struct ElfEnd {
  void operator()(Elf* elf) const { elf_end(elf); }
};

// What the compilers wrote into the program, each once.
std::vector<std::string> compilers_of(const std::string& program) {
  const UniqueFd file(::open(program.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file || elf_version(EV_CURRENT) == EV_NONE) return {};
  const std::unique_ptr<Elf, ElfEnd> elf(elf_begin(file.get(), ELF_C_READ, nullptr));
  std::size_t names = 0;
  if (!elf || elf_getshdrstrndx(elf.get(), &names) != 0) return {};
  std::vector<std::string> compilers;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* const name = elf_strptr(elf.get(), names, header.sh_name);
    if (name == nullptr || std::string_view(name) != ".comment") continue;
    const Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    std::string_view text(static_cast<const char*>(data->d_buf), data->d_size);
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find('\0'));
      text.remove_prefix(std::min(one.size() + 1, text.size()));
      if (!one.empty() && std::find(compilers.begin(), compilers.end(), one) == compilers.end())
        compilers.emplace_back(one);
      if (compilers.size() == kMaxCompilers) return compilers;
    }
  }
  return compilers;
}

// "gcc/12.2.0" is gcc, of version 12.2.0.
Setting module_of(const std::string& loaded) {
  const std::size_t slash = loaded.rfind('/');
  if (slash == std::string::npos) return {SettingKind::kModule, loaded, ""};
  return {SettingKind::kModule, loaded.substr(0, slash), loaded.substr(slash + 1)};
}

// The value without what looks like a secret.
Setting variable_of(const std::string& variable, std::size_t equals) {
  std::vector<std::string> words = {"", variable};  // the first word is the program
  mask_secrets(words);
  return {SettingKind::kVariable, variable.substr(0, equals),
          words[1].size() > equals ? words[1].substr(equals + 1) : std::string()};
}

}  // namespace

Commit commit_of(const std::string& folder) {
  std::error_code error;
  fs::path at = fs::absolute(folder, error).lexically_normal();
  if (error) return {};
  for (;; at = at.parent_path()) {
    const fs::path dot_git = at / ".git";
    struct stat status {};
    if (::lstat(dot_git.c_str(), &status) == 0 && is_trusted(status))
      if (const fs::path git = git_folder(dot_git); !git.empty())
        if (const std::string hash = head_of(git); !hash.empty()) return {at.filename().string(), hash};
    if (at == at.root_path() || at.empty()) return {};
  }
}

std::vector<Setting> read_settings(const SettingsSource& source) {
  std::set<Setting> settings;
  for (const std::string& folder : source.folders)
    if (const Commit commit = commit_of(folder); !commit.hash.empty()) {
      settings.insert({SettingKind::kCommit, commit.folder, commit.hash});
      break;
    }
  std::string of_ci;  // what continuous integration has checked out
  for (const std::string& variable : source.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view name = std::string_view(variable).substr(0, equals);
    if (name == "GITHUB_SHA" || name == "CI_COMMIT_SHA") of_ci = variable.substr(equals + 1);
    if (name == "LOADEDMODULES")
      for (const std::string& loaded : split(variable.substr(equals + 1), ':'))
        if (!loaded.empty()) settings.insert(module_of(loaded));
    if (source.variables &&
        std::any_of(kVariables.begin(), kVariables.end(),
                    [&](std::string_view beginning) { return name.starts_with(beginning); }))
      settings.insert(variable_of(variable, equals));
  }
  const bool has_commit = !settings.empty() && settings.begin()->kind == SettingKind::kCommit;
  if (!has_commit && is_hash(of_ci)) settings.insert({SettingKind::kCommit, "", of_ci});
  if (!source.program.empty())
    for (const std::string& compiler : compilers_of(source.program))
      settings.insert({SettingKind::kCompiler, "", compiler});
  std::vector<Setting> result;
  for (Setting setting : settings) {
    if (result.size() == shard::kMaxSettings) break;
    setting.name.resize(std::min(setting.name.size(), kMaxValueBytes));
    setting.value.resize(std::min(setting.value.size(), kMaxValueBytes));
    if (result.empty() || result.back() < setting) result.push_back(std::move(setting));
  }
  return result;
}

}  // namespace clusterprof::collector
