// SPDX-License-Identifier: BSD-3-Clause
export interface SampleOptions {
  ranks?: number;
  ranksPerNode?: number;
  paths?: number;
  hostile?: boolean;
  source?: boolean;
  plain?: boolean;
  seed?: number;
  mostGroups?: number;
}
export function makeSample(options?: SampleOptions): Uint8Array<ArrayBuffer>;
export function encode(
  header: Record<string, unknown>,
  arrays: Record<string, { type: string; values: ArrayBufferView & { length: number } }>,
): Uint8Array<ArrayBuffer>;
