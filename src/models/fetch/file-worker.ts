import { createHash, type Hash } from "node:crypto";
import { appendFileSync, closeSync, openSync, readSync, writeSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { crc32 } from "node:zlib";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import type { FileAnswer, FileQuestion } from "./file-task.ts";
import { blockBytes, blockLine } from "./partial-journal.ts";

/** Runs on a thread of its own: reading, writing and hashing here may take all of a core. */
const buffer = Buffer.allocUnsafeSlow(256 * 1024);
/**
 * The length of one write. The kernel caches a longer write in larger pieces of memory, which are rare on a machine in
 * use: 2 GiB took 0.7 s of a core in writes of this length, and 2.3 s in writes of 256 KiB.
 */
const writeBytes = 64 * 1024;

/** The hash of a file's beginning, up to the position `at`. */
interface BegunHash {
  hash: Hash;
  at: number;
  /** Beyond, up to its own `at`: whether these bytes are right is not known yet. */
  trial: { readonly hash: Hash; at: number } | undefined;
}

const hashes = new Map<number, BegunHash>();

parentPort?.on("message", (question: FileQuestion) => {
  parentPort?.postMessage(answerTo(question), []);
});
// The first message says that this module is loaded.
parentPort?.postMessage("ready", []);

function answerTo(question: FileQuestion): FileAnswer {
  try {
    return { value: done(question) };
  } catch (error) {
    return { error: errorMessage(error), code: errorCode(error) };
  }
}

function done(question: FileQuestion): string | number | readonly number[] | undefined {
  switch (question.do) {
    case "advance": {
      const begun = begunHash(question.id);
      read(question.path, begun.at, question.to, (part) => {
        begun.hash.update(part);
        begun.at += part.length;
      });
      return undefined;
    }
    case "write":
      return write(question);
    case "digest": {
      const { hash } = hashes.get(question.id) ?? { hash: createHash("sha256") };
      hashes.delete(question.id);
      return hash.digest("hex");
    }
    case "forget":
      hashes.delete(question.id);
      return undefined;
    case "follow":
      return follow(question);
    case "check":
      return wrongBlocks(question);
    default:
      return question satisfies never;
  }
}

function write({ id, data, journal, index, block }: Extract<FileQuestion, { do: "write" }>): number {
  const from = index * blockBytes;
  for (let at = 0; at < block.length;) {
    at += writeSync(data, block, at, Math.min(writeBytes, block.length - at), from + at);
  }
  const begun = begunHash(id);
  const isNext = begun.at === from;
  if (isNext) {
    begun.hash.update(block);
    begun.at += block.length;
  }
  const sum = isNext ? prefixSum(begun.hash) : crc32(block);
  appendFileSync(journal, blockLine(index, { of: isNext ? "prefix" : "own", sum }));
  return begun.at;
}

/** The first 32 bits of the digest of what was hashed; the hash goes on. */
function prefixSum(hash: Hash): number {
  return hash.copy().digest().readUInt32BE(0);
}

function begunHash(id: number): BegunHash {
  const begun = hashes.get(id) ?? { hash: createHash("sha256"), at: 0, trial: undefined };
  hashes.set(id, begun);
  return begun;
}

function follow({ id, path, to, sizeBytes, blockBytes, sums }: Extract<FileQuestion, { do: "follow" }>): number {
  const begun = begunHash(id);
  const trial = begun.trial ?? { hash: begun.hash.copy(), at: begun.at };
  begun.trial = undefined;
  const readTo = (end: number): void => {
    read(path, trial.at, end, (part) => trial.hash.update(part));
    trial.at = end;
  };
  for (const [index, sum] of sums) {
    readTo(Math.min((index + 1) * blockBytes, sizeBytes));
    if (prefixSum(trial.hash) !== sum) return begun.at;
    begun.hash = trial.hash.copy();
    begun.at = trial.at;
  }
  readTo(to);
  if (trial.at > begun.at) begun.trial = trial;
  return begun.at;
}

function wrongBlocks({ path, sizeBytes, blockBytes, sums }: Extract<FileQuestion, { do: "check" }>): number[] {
  return sums.flatMap(([index, crc]) => {
    const from = index * blockBytes;
    const to = Math.min(from + blockBytes, sizeBytes);
    let found = 0;
    let length = 0;
    read(path, from, to, (part) => {
      found = crc32(part, found);
      length += part.length;
    });
    return length === to - from && found === crc ? [] : [index];
  });
}

/** Ends early if the file is shorter. */
function read(path: string, from: number, to: number, take: (part: Buffer) => void): void {
  const file = openSync(path, "r");
  try {
    for (let at = from; at < to;) {
      const length = readSync(file, buffer, 0, Math.min(buffer.length, to - at), at);
      if (length === 0) return;
      take(length === buffer.length ? buffer : buffer.subarray(0, length));
      at += length;
    }
  } finally {
    closeSync(file);
  }
}
