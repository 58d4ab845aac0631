// SPDX-License-Identifier: BSD-3-Clause
// The pages, in the order of the navigation.
import type { Page } from "../core/page";
import { page as balance } from "./balance";
import { page as comm } from "./comm";
import { page as hotspots } from "./hotspots";
import { page as eventLoops } from "./eventloops";
import { page as info } from "./info";
import { page as io } from "./io";
import { page as memory } from "./memory";
import { page as nodes } from "./nodes";
import { page as offcpu } from "./offcpu";
import { page as openmp } from "./openmp";
import { page as processes } from "./processes";
import { page as source } from "./source";
import { page as summary } from "./summary";
import { page as timeline } from "./timeline";
import { page as torch } from "./torch";
import { page as tree } from "./tree";

export const pages: readonly Page[] = [
  summary,
  timeline,
  hotspots,
  tree,
  balance,
  comm,
  torch,
  io,
  offcpu,
  processes,
  openmp,
  eventLoops,
  source,
  nodes,
  memory,
  info,
];
