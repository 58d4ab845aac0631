// SPDX-License-Identifier: BSD-3-Clause
// The table `gains` of a profile. Internal to formats/profile.
#pragma once

#include "formats/h5/h5.hpp"
#include "formats/profile/gains.hpp"

namespace clusterprof::profile {

void write_gains(h5::Group& root, const Gains& gains);
// Throws H5Error.
Gains read_gains(const h5::Group& root);

}  // namespace clusterprof::profile
