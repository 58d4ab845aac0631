// SPDX-License-Identifier: BSD-3-Clause
// The efficiencies of parts of the run: of MPI, of OpenMP's threads, or of both together.
import type { Report } from "../core/report";

export interface EfficiencyPart {
  begin_s: number;
  end_s: number;
  shares: Record<string, number | null | undefined>; // by name, in the order in which a tip lists them
}

export interface Efficiencies {
  title: string;
  parts: EfficiencyPart[];
  curves: string[]; // names of three shares, the first of which is the product of the others
}

export function efficienciesOf(report: Pick<Report, "efficiency_windows" | "openmp">): Efficiencies {
  const threads = report.openmp?.over_time ?? [];
  const windows = report.efficiency_windows ?? [];
  const atTime = new Map(windows.map((window) => [window.begin_s, window]));
  const ofThreads = (part: (typeof threads)[number]) => ({
    "threads' load balance": part.efficiency.load_balance,
    scheduling: part.efficiency.scheduling,
    serialization: part.efficiency.serialization,
  });
  if (threads.length > 0 && report.openmp?.hybrid.mpi !== null)
    return {
      title: "Efficiency of MPI and OpenMP",
      parts: threads.map((part) => {
        const window = atTime.get(part.begin_s);
        const { begin_s, end_s, hybrid } = part;
        return {
          begin_s,
          end_s,
          shares: {
            hybrid: hybrid.parallel,
            MPI: hybrid.mpi,
            "ranks' load balance": window?.load_balance ?? null,
            communication: window?.communication ?? null,
            OpenMP: hybrid.openmp,
            ...ofThreads(part),
          },
        };
      }),
      curves: ["hybrid", "MPI", "OpenMP"],
    };
  if (threads.length > 0)
    return {
      title: "Efficiency of OpenMP",
      parts: threads.map((part) => {
        const { parallel, load_balance, scheduling, serialization } = part.efficiency;
        return {
          begin_s: part.begin_s,
          end_s: part.end_s,
          shares: { parallel, "load balance": load_balance, scheduling, serialization },
        };
      }),
      curves: ["parallel", "load balance", "serialization"],
    };
  return {
    title: "Efficiencies",
    parts: windows.map(({ begin_s, end_s, parallel, load_balance, communication }) => ({
      begin_s,
      end_s,
      shares: { parallel, "load balance": load_balance, communication },
    })),
    curves: ["parallel", "communication", "load balance"],
  };
}

// Parts one after the other that have the share. Of the time between stretches it is not known.
export function stretches(parts: readonly EfficiencyPart[], name: string): EfficiencyPart[][] {
  const found: EfficiencyPart[][] = [];
  let before: EfficiencyPart | null = null;
  for (const part of parts) {
    const follows = before !== null && part.begin_s - before.end_s < 0.01 * (part.end_s - part.begin_s);
    const known = typeof part.shares[name] === "number";
    if (known && follows && found.length > 0) found[found.length - 1].push(part);
    else if (known) found.push([part]);
    before = known ? part : null;
  }
  return found;
}
