// SPDX-License-Identifier: BSD-3-Clause
// The document of `clusterprof report --json` (report/json/report.schema.json), as far as pages read it.

type Seconds = number | null | undefined;
type Count = number | null | undefined;

export interface Place {
  op?: string | null;
  file: string | null;
  line: number | null;
  function: string | null;
}

export interface Derived {
  name: string;
  value: number;
  unit: string;
  formula: string;
}

export interface Parts {
  python_s: number;
  native_s: number;
  system_s: number;
  mpi_s: number;
  io_s: number;
  idle_s: number;
  runnable_s?: number;
}

export interface FineParts {
  gil_s?: Seconds;
  gc_s?: Seconds;
  import_s?: Seconds;
  page_fault_s?: Seconds;
  sleep_s?: Seconds;
  lock_s?: Seconds;
}

export type Activities = Record<string, number | null>;

export interface RunRow {
  id: string;
  command: string[];
  commands?: { command: string[]; ranks: number[] }[]; // several in an MPMD job
  start_utc: string | null;
  standby?: boolean;
  lasted_s?: number; // of a run on standby, also what was not recorded
  windows?: { begin_s: number; end_s: number; ranks: number }[];
  elapsed_s: number;
  nodes: number;
  ranks: number;
  spawned_ranks?: number;
  world_size: number | null;
  missing_ranks: number[];
  rate_hz: number;
  clock: string;
  region?: string | null;
  launcher?: string | null;
  restarts?: number;
  sample_on?: string | null;
  only_regions?: boolean;
  samples: number;
  dropped: Record<string, number>;
  complete: boolean;
  state: "running" | "ended" | "lost";
  as_of_s: number | null;
  version: string;
  mpi_library: string | null;
  commit: string | null;
  modules: string[];
  compilers: string[];
  environment: { name: string; value: string }[];
  notes: string[];
  dropped_meaning?: Record<string, string>;
}

export interface NodeRow {
  name: string;
  ranks: number[];
  elapsed_s: number;
  cpu_s: number;
  collector_cpu_s: number;
  cpus: Count;
  numa_nodes: Count;
  memory_bytes: Count;
  cache_bytes: Count;
  cpu_model: string | null;
  cpu_busy: Seconds;
  memory_used_bytes: Count;
  network_received_bytes: Count;
  network_sent_bytes: Count;
  disk_read_bytes: Count;
  disk_written_bytes: Count;
}

export interface RankRow {
  rank: number;
  node: string | null;
  pid: number;
  elapsed_s: number;
  cpu_s: Seconds;
  samples: number;
  spawned?: boolean;
  threads: number;
  processes: number;
  python_s: Seconds;
  native_s: Seconds;
  system_s: Seconds;
  mpi_s: Seconds;
  io_s: Seconds;
  idle_s: Seconds;
  activities: Activities;
  useful_s: Seconds;
  mpi_wait_s: Seconds;
  mpi_transfer_s: Seconds;
  max_rss_bytes: Count;
  read_bytes: Count;
  write_bytes: Count;
  paused_s: number;
  user_s: Seconds;
  kernel_s: Seconds;
  minor_faults: Count;
  major_faults: Count;
  voluntary_switches: Count;
  involuntary_switches: Count;
  affinity: string | null;
  numa: string | null;
  derived: Derived[];
  exit: { status: number | null; signal: number | null; lost: boolean; last_call_path?: string[] };
}

export interface Efficiency {
  parallel: Seconds;
  load_balance: Seconds;
  communication: Seconds;
  serialization: Seconds;
  transfer: Seconds;
}
export type EfficiencyName = keyof Efficiency;

export interface FunctionRow extends Parts, FineParts {
  name: string;
  file: string | null;
  line: number | null;
  kind: "python" | "native" | "mpi" | "kernel";
  module: string | null;
  self_s: number;
  total_s: number;
  active_self_s: number;
  active_total_s: number;
  rank_min_s: number;
  rank_mean_s: number;
  rank_max_s: number;
  rank_max: number;
  imbalance: Seconds;
  active_rank_min_s: number; // of active_total_s, as the next four
  active_rank_mean_s: number;
  active_rank_max_s: number;
  active_rank_max: number;
  active_imbalance: Seconds;
  counters?: Record<string, number>;
  working_set_bytes?: number;
  working_set_is_more?: boolean;
}

export interface LineRow extends Parts, FineParts {
  file: string;
  line: number;
  function: string;
  self_s: number;
  total_s: number;
  approximate_s: number; // of self_s: shard::Frame::line_approximate
  active_self_s: number; // without idle helper threads
  active_total_s: number;
  active_rank_min_s: number; // of active_self_s, as the next three
  active_rank_mean_s: number;
  active_rank_max_s: number;
  active_rank_max: number;
  counters?: Record<string, number>;
}

export interface MpiCallRow {
  op: string;
  file: string | null;
  line: number | null;
  function: string | null;
  count: number;
  time_s: number;
  wait_s: Seconds;
  sent_bytes: number;
  recv_bytes: number;
  rank_min_s: number;
  rank_mean_s: number;
  rank_max_s: number;
  rank_max: number;
}

export type WaitKind =
  | "late_sender"
  | "late_receiver"
  | "wait_at_barrier"
  | "wait_at_nxn"
  | "late_broadcast"
  | "early_reduce"
  | "early_scan";

export interface WaitCause extends Place {
  rank: number | null;
  wait_s: number;
  count: number;
  rest?: number;
}

export interface WaitRow {
  kind: WaitKind;
  rank: number;
  wait_s: number;
  count: number;
  caused_by: WaitCause[];
  where: (Place & { wait_s: number; count: number; rest?: number })[];
}

export interface MatrixCell {
  src: number | null;
  dst: number | null;
  messages: number;
  bytes: number;
}

export interface NodeMatrixCell extends MatrixCell {
  src_node: string | null;
  dst_node: string | null;
}

export interface Mpi {
  collectives?: { op: string; count: number; bytes?: number }[];
  calls?: MpiCallRow[];
  matrix?: MatrixCell[];
  node_matrix?: NodeMatrixCell[];
  sizes?: { op: string; le_bytes: number; count: number }[];
  waits?: WaitRow[];
  errors?: MpiErrorRow[];
  open_requests?: OpenRequestRow[];
  unmatched?: UnmatchedRow[];
}

export interface MpiErrorRow extends Place {
  rank: number;
  count: number;
  error_class: string | null;
  error_class_number: number;
  text: string | null;
  peer: number | null;
  any_peer: boolean;
  tag: number | null;
  any_tag: boolean;
  message: number | null;
  first_s: number;
}

export interface OpenRequestRow extends Place {
  rank: number;
  count: number;
  kind: "send" | "receive" | "collective" | null;
  peer: number | null;
  any_peer: boolean;
  tag: number | null;
  any_tag: boolean;
}

export interface UnmatchedRow extends Place {
  rank: number;
  count: number;
  dst: number;
  tag: number;
}

export interface WaitAnalysis {
  operations: number;
  events: number;
  event_level: number;
  messages: number;
  unmatched_messages: number;
  collectives: number;
  unmatched_collectives: number;
  clock_error_s: Seconds;
  clock_violations: number;
  worst_violation_s: number;
  ideal_s: Seconds;
}

export interface RootCause extends Place {
  rank: number;
  wait_s: number;
  share: number;
  waiting_ranks: number;
}

export interface CriticalRow extends Place {
  kind: "python" | "native" | "mpi" | "kernel" | null;
  time_s: number;
  share: number;
  mean_s: Seconds;
  imbalance: Seconds;
  rank_max: number;
}

export interface EfficiencyWindow {
  begin_s: number;
  end_s: number;
  parallel: number;
  load_balance: Seconds;
  communication: number;
  wait_s: number;
  hybrid_parallel?: Seconds;
  openmp_parallel?: Seconds;
}

export interface Counters {
  available: string[];
  unavailable: Record<string, string>;
  multiplexed: boolean;
  derived: Derived[];
  ranks: (Record<string, number> & { rank: number })[];
}

export interface IoAmounts {
  read_bytes: number;
  written_bytes: number;
  read_s: number;
  write_s: number;
  sync_s: number;
  meta_s: number;
}

export interface IoFile extends IoAmounts {
  path: string | null;
  file_system: string | null;
  ranks: number;
  opens: number;
  reads: number;
  writes: number;
}

// Files of one directory, or of names that differ in their numbers.
export interface IoGroup extends IoAmounts {
  path: string | null;
  files?: number;
  opens?: number;
}

export interface IoCall {
  operation: string;
  mpi?: string | null; // the MPI function that it was made in
  background?: boolean; // on a file system of the kernel, or while MPI starts or ends
  file: string | null;
  line: number | null;
  function: string | null;
  library_function: string | null; // that the line called, and that holds the time
  path: string | null;
  count: number;
  failed: number;
  bytes: number;
  time_s: number;
  max_s: number; // the longest call
  longest_rank: number; // made it
  rank_max: number; // has most of time_s
}

export interface Io {
  files: IoFile[];
  calls: IoCall[];
  directories?: IoGroup[];
  patterns?: IoGroup[];
  by_file_only?: { operations: number; bytes: number; time_s: number }; // in files, but in no call
  file_systems: (IoAmounts & { name: string | null })[];
}

export interface OffCpuRow {
  kind: string;
  file: string | null;
  line: number | null;
  function: string | null;
  library_function: string | null; // that the line called, and that blocked
  time_s: number;
  main_thread_s: number;
  rank_max: number;
}

// Of torch.distributed, by samples or by recorded calls.
export interface TorchRow {
  op: string;
  kind: string;
  file: string | null;
  line: number | null;
  function: string | null;
  time_s: number;
  blocked_s: Seconds; // by samples, as the next one
  running_s: Seconds;
  rank_min_s: number;
  rank_mean_s: number;
  rank_max_s: number;
  rank_max: number;
  late_ranks: number[];
  latest_rank: number | null;
  late_s: Seconds;
}

export interface ImportRow {
  package: string | null; // the top-level one
  time_s: number; // with what it imports in turn
  self_s: number;
  main_thread_s: number; // of time_s
  ranks: number;
  rank_mean_s: number;
  rank_max_s: number;
  rank_max: number;
  direct: boolean; // a statement of the user's own code imports it
  own: boolean;
  file: string | null; // of the program's import statement
  line: number | null;
  function: string | null;
}

export interface ImportTime {
  time_s: number; // without the user's own modules' code
  main_thread_s: number;
  main_thread_io_s: number;
}

export interface ProcessGroupRow {
  rank: number;
  how: string;
  unrecorded: string | null; // why
  program: string | null;
  count: number;
  cpu_s: number | null; // null, as the next three: of none is it known
  cpu_min_s: number | null;
  cpu_mean_s: number | null;
  cpu_max_s: number | null;
  start_s: number;
  end_s: number;
  created_by: (Place & { call_path: string[] }) | null;
  top: (Place & { time_s: number }) | null;
}

export interface ProcessRow {
  pid: number;
  ppid: number;
  rank: number;
  count: number; // more than 1: of several, which have ended
  group: number; // index into process_groups
  how: string;
  unrecorded: string | null;
  command: string[];
  start_s: number;
  end_s: number | null;
  cpu_s: number | null;
  created_by: Place | null;
  exit: { status: number | null; signal: number | null };
}

export interface LoopBlockRow {
  time_s: number;
  awaited_s: number;
  count: number;
  longest_s: number;
  function: string | null;
  file: string | null;
  line: number | null;
  called: string | null;
  task: string | null;
}

export interface EventLoopRow {
  rank: number;
  pid: number;
  tid: number;
  main_thread: boolean;
  thread: string | null;
  kind: "asyncio" | "uvloop" | "epoll";
  turns: number;
  idle_s: number;
  busy_s: number;
  blocked: number;
  blocked_s: number;
  awaited_s: number;
  longest_block_s: number;
  longest_block_at_s: number | null;
  blocks: LoopBlockRow[];
}

export interface MutexRow extends Place {
  wait_s: number;
  samples: number;
  mutexes: number | null;
  rank_max_s: number;
  rank_max: number;
  holders: (Place & { wait_s: number })[];
}

export interface LockRow {
  kind: string;
  name: string | null;
  rank: number | null;
  address: string | null;
  mutexes: number | null;
  wait_s: number;
  waits: number;
  longest_s: number;
  rank_max_s: number;
  rank_max: number;
  lines: (Place & { wait_s: number })[];
  holders: (Place & { wait_s: number })[];
}

export interface OpenMpConstructRow extends Place {
  kind: string;
  count: number;
  time_s: number;
  wait_s: number;
  schedule_s: number;
  chunks: number | null;
  iterations: number | null;
  imbalance: number | null;
  schedules: string[];
}

export interface OpenMpThreadRow {
  number: number;
  work_s: number;
  wait_s: number;
}

export interface OpenMpFactors {
  load_balance: Seconds;
  scheduling: Seconds;
  serialization: Seconds;
}

// Of one rank in a region.
export interface OpenMpRegionRank extends OpenMpFactors {
  rank: number;
  count: number;
  threads: number;
  time_s: number;
  threads_s: number;
  work_s: number;
  wait_s: number;
  serial_s: number;
  schedule_s: number;
  imbalance: number | null;
  efficiency: Seconds;
  by_thread: OpenMpThreadRow[];
}

export interface OpenMpRegionRow extends Place, OpenMpFactors {
  called: string | null;
  kind: "parallel" | "teams";
  level: number;
  count: number;
  unfinished: number;
  time_s: number;
  rank_max_s: number;
  rank_max: number;
  wait_s: number;
  end_wait_s: number;
  serial_s: number;
  work_s: number;
  schedule_s: number;
  threads_s: number;
  threads: number;
  threads_asked: number | null;
  imbalance: number | null;
  efficiency: Seconds;
  constructs: OpenMpConstructRow[];
  by_thread: OpenMpThreadRow[];
  by_rank: OpenMpRegionRank[];
}

export interface OpenMpSerialRow extends Place {
  time_s: number;
  lost_s: number;
  native_s: number;
}

export interface OpenMpRankRow {
  rank: number;
  recorded_by: "none" | "ompt" | "gomp" | "other_tool";
  runtime: string | null;
  other_runtime: boolean;
  threads: number | null;
  processors: number | null;
  region_s: number;
  serial_s: number;
  mpi_s: number;
  work_s: number;
  wait_s: number;
}

export interface OpenMpWindow {
  begin_s: number;
  end_s: number;
  efficiency: { parallel: Seconds } & OpenMpFactors;
  hybrid: { parallel: Seconds; mpi: Seconds; openmp: Seconds };
  work_s: number;
  imbalance_s: number;
  schedule_s: number;
  serialization_s: number;
}

export interface OpenMp {
  efficiency: { parallel: Seconds } & OpenMpFactors;
  hybrid: { parallel: Seconds; mpi: Seconds; openmp: Seconds };
  work_s: number;
  imbalance_s: number;
  schedule_s: number;
  serialization_s: number;
  regions: OpenMpRegionRow[];
  serial: OpenMpSerialRow[];
  over_time?: OpenMpWindow[] | null;
  ranks: OpenMpRankRow[];
}

export interface TaskRow {
  rank: number;
  name: string | null;
  function: string | null;
  file: string | null;
  line: number | null;
  time_s: number;
  cpu_s: number;
}

export interface TaskTreeRow {
  parent: number | null;
  name: string;
  fold: "calls" | "import" | null;
  file: string | null;
  line: number | null;
  kind: "python" | "native" | "mpi" | "kernel" | "region";
  self_s: number;
  total_s: number;
}

export interface ThreadGroupRow {
  rank: number;
  name: string | null;
  kind: "main" | "python" | "openmp" | "native" | "helper";
  count: number;
  cpu_s: number;
  cpu_min_s: number;
  cpu_mean_s: number;
  cpu_max_s: number;
  start_s: number;
  end_s: number;
  top: Place | null;
}

export interface ThreadRow {
  rank: number;
  pid: number;
  tid: number;
  name: string | null;
  count: number; // more than 1: of several, which have ended
  group: number; // index into thread_groups
  start_s: number;
  end_s: number | null;
  cpu_s: number;
  top: Place | null;
}

export interface RegionRow extends Parts {
  name: string;
  domain: string | null; // null: the program, by clusterprof.h
  library: boolean; // the domain is a library's own
  count: number;
  time_s: Seconds;
  min_s: Seconds;
  max_s: Seconds;
  max_n: number | null;
  sampled_s: number;
  share: number;
  rank_min_s: number;
  rank_mean_s: number;
  rank_max_s: number;
  rank_max: number;
  efficiency: Omit<Efficiency, "serialization" | "transfer">;
  openmp: { parallel: Seconds; hybrid: Seconds } & OpenMpFactors;
  efficiency_above_one: EfficiencyName[]; // by measuring error
  counters: Record<string, number>;
  derived: Derived[];
  bottleneck: string | null;
  forward?: { file: string; line: number | null }; // of backward operators of PyTorch
}

export interface HeldPlace {
  file: string | null;
  line: number | null;
  function: string | null;
}

export type MemoryDomain = "native" | "python" | "mmap" | "mpi";

export interface MemoryLine extends HeldPlace {
  domain: MemoryDomain;
  library_function: string | null;
  alloc_bytes: number;
  alloc_count: number;
  error_bytes: number;
  freed_soon_bytes: number;
  live_end_bytes: number;
  copy_bytes: number;
  copy_count: number;
  rank_peak_bytes: number;
  node_peak_bytes: number;
  mapped_file_bytes: number;
  rank_max: number;
  rank_max_bytes: number;
  leak: boolean;
  leak_confidence: number | null;
  growth_bytes_per_s: number | null;
}

export interface HeldRank {
  rank: number;
  peak_bytes: number;
  peak_at_s: Seconds;
  live_end_bytes: number;
  max_rss_bytes: Count;
  untracked_bytes: number;
  static_bytes: number;
  max_anonymous_bytes: Count;
  live_at_max_anonymous_bytes: Count;
  mean_anonymous_bytes: Count;
  mean_live_bytes: Count;
  pss_bytes: Count;
  private_dirty_bytes: Count;
  huge_page_bytes: Count;
  swap_bytes: Count;
  near_bytes: Count;
  far_bytes: Count;
}

export interface HeldNode {
  name: string;
  peak_bytes: number;
  peak_at_s: Seconds;
  limit_bytes: Count;
  requested_bytes: Count;
  used_bytes: Count;
  max_used_bytes: Count;
  limit_hits: Count;
  anonymous_bytes: Count;
  file_bytes: Count;
  shared_bytes: Count;
  kernel_bytes: Count;
  swap_bytes: Count;
  growth_bytes_per_s: number;
  held: (HeldPlace & { domain: MemoryDomain; rank: number; bytes: number })[];
}

export interface HeldOverTime {
  bin_s: number;
  begin_s: number;
  bins: number;
  lines: (HeldPlace & { bytes: number[] })[];
}

export interface HeldMemory {
  interval_bytes: number;
  ranks: HeldRank[];
  nodes: HeldNode[];
  lines: MemoryLine[];
  over_time: HeldOverTime;
}

export interface MemoryLabelRow {
  label: string | null;
  ranks: number;
  allocations: number;
  frees: number;
  alloc_bytes: number;
  live_end_bytes: number;
  peak_bytes: number;
  space_peak_bytes: number;
  rank_max: number;
  rank_max_bytes: number;
}

export interface MemorySpaceRow {
  name: string;
  ranks: number;
  allocations: number;
  frees: number;
  live_end_bytes: number;
  rank_max: number | null;
  rank_max_bytes: number;
  rank_max_at_s: Seconds;
  peaks_bytes: number;
  node_max: string | null;
  node_max_bytes: number;
  labels: MemoryLabelRow[];
}

export interface MemoryCopiesRow {
  to: string;
  from: string;
  count: number;
  bytes: number;
  rank_max: number;
  rank_max_bytes: number;
}

export interface LabelledMemory {
  spaces: MemorySpaceRow[];
  copies: MemoryCopiesRow[];
}

export interface Quality {
  samples: number;
  rate_reached_hz: Seconds;
  handler_median_s: Seconds;
  handler_p99_s: Seconds;
  recording_s: number;
  recording_share: number | null;
  dropped: Record<string, number>;
  truncated: number;
  merges_tried: number;
  merges_failed: number;
  merge_success_percent: Seconds;
}

export interface Bottleneck {
  scope: "run" | "rank" | "region";
  rank: number | null;
  region: string | null;
  class: "compute" | "memory" | "io" | "communication" | "imbalance" | "python" | "idle" | "runnable" | "input";
  share: number;
  evidence: string;
}

export interface Finding {
  kind: string;
  severity: "high" | "medium" | "low" | "info";
  share: Seconds;
  gain_s: Seconds;
  gain_error_s: Seconds; // null: estimated from sums
  gain_method: "replay" | "sums" | null;
  change: string | null; // that was replayed
  estimate: boolean;
  text: string;
  action: string | null;
  evidence: Record<string, unknown>;
  file: string | null;
  line: number | null;
  function: string | null;
  rank: number | null;
  ranks: number[];
}

export interface PredictedGain {
  change: string;
  predicted_s: number;
  gain_s: number;
  error_s: number;
  file: string | null;
  line: number | null;
  function: string | null;
  rank: number | null;
}

export interface RefusedChange {
  change: string;
  reason: string;
}

export interface WhatIf {
  method: "replay" | "sums" | null;
  refused: string | null;
  elapsed_s: Seconds;
  replayed_s: Seconds;
  stretches: { count: number; time_s: number } | null;
  to_try: number;
  tried: number;
  candidates: PredictedGain[];
  refused_changes: RefusedChange[];
}

export interface Report {
  schema: string;
  run: RunRow;
  nodes: NodeRow[];
  ranks: RankRow[];
  efficiency: Efficiency;
  efficiency_above_one: EfficiencyName[];
  activities: Activities;
  native_modules: Record<string, number> | null;
  system_calls: Record<string, number> | null;
  functions: FunctionRow[];
  lines: LineRow[];
  mpi: Mpi;
  wait_analysis: WaitAnalysis | null;
  root_causes: RootCause[] | null;
  critical_path: CriticalRow[] | null;
  efficiency_windows: EfficiencyWindow[] | null;
  counters: Counters;
  io: Io | null;
  off_cpu: OffCpuRow[] | null;
  torch_distributed: { method: "calls" | "samples" | null; why: string | null; rows: TorchRow[] };
  imports: ImportRow[];
  import_time: ImportTime;
  processes: ProcessRow[];
  process_groups: ProcessGroupRow[];
  event_loops: EventLoopRow[];
  mutexes: MutexRow[];
  locks: LockRow[];
  openmp: OpenMp | null;
  tasks: TaskRow[];
  task_tree: TaskTreeRow[];
  threads: ThreadRow[];
  thread_groups: ThreadGroupRow[];
  regions: RegionRow[];
  memory?: HeldMemory; // with --memory
  labelled_memory?: LabelledMemory; // that the program names, as Kokkos does
  quality: Quality;
  bottleneck: Bottleneck[];
  failure?: { rank: number | null; stderr_tail: string | null } | null; // more is in the first finding
  findings: Finding[];
  whatif: WhatIf | null; // of this part of the run nothing was predicted
}
