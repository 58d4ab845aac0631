/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that can be preloaded and does nothing. */
const int clusterprof_fake_preload = 1;
