// SPDX-License-Identifier: BSD-3-Clause
// The data block: base64 of a gzip stream of a header and arrays.
import { Model, type Header } from "./model";

const MAGIC = "CPPAGE1\n";
const CHUNK = 1 << 20; // characters of base64; a multiple of 4

// Newer than the types of ES2023.
const fromBase64 = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  if (fromBase64) return fromBase64.call(Uint8Array, base64);
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function gunzip(base64: string): Promise<ArrayBuffer> {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  // Errors of the writer are the reader's as well.
  const written = (async () => {
    for (let at = 0; at < base64.length; at += CHUNK) await writer.write(bytesOf(base64.slice(at, at + CHUNK)));
    await writer.close();
  })().catch((error: unknown) => error);
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = stream.readable.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    chunks.push(value);
    size += value.length;
  }
  const error = await written;
  if (error) throw error;
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all.buffer;
}

export function parse(buffer: ArrayBuffer): Model {
  const bytes = new Uint8Array(buffer);
  const magic = String.fromCharCode(...bytes.subarray(0, MAGIC.length));
  if (magic !== MAGIC) throw new Error("the data block is not that of a clusterprof page");
  const length = new DataView(buffer).getUint32(MAGIC.length, true);
  const begin = MAGIC.length + 4;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(begin, begin + length))) as Header;
  if (header.schema !== "clusterprof.page/1") throw new Error(`the data block is ${header.schema}`);
  const arraysBegin = Math.ceil((begin + length) / 8) * 8;
  return new Model(header, buffer, arraysBegin);
}

export async function decode(base64: string): Promise<Model> {
  return parse(await gunzip(base64.trim()));
}
