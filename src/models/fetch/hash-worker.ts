import { createHash, type Hash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { crc32 } from "node:zlib";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import type { HashAnswer, HashQuestion } from "./hash-task.ts";

/** Runs on a thread of its own: reading and hashing here may take all of a core. */
const buffer = Buffer.allocUnsafeSlow(256 * 1024);
const hashes = new Map<number, { readonly hash: Hash; at: number }>();

parentPort?.on("message", (question: HashQuestion) => {
  parentPort?.postMessage(answerTo(question), []);
});
// The first message says that this module is loaded.
parentPort?.postMessage("ready", []);

function answerTo(question: HashQuestion): HashAnswer {
  try {
    return { value: done(question) };
  } catch (error) {
    return { error: errorMessage(error), code: errorCode(error) };
  }
}

function done(question: HashQuestion): string | readonly number[] | undefined {
  switch (question.do) {
    case "advance": {
      const state = hashes.get(question.id) ?? { hash: createHash("sha256"), at: 0 };
      hashes.set(question.id, state);
      read(question.path, state.at, question.to, (part) => {
        state.hash.update(part);
        state.at += part.length;
      });
      return undefined;
    }
    case "digest": {
      const { hash } = hashes.get(question.id) ?? { hash: createHash("sha256") };
      hashes.delete(question.id);
      return hash.digest("hex");
    }
    case "forget":
      hashes.delete(question.id);
      return undefined;
    case "check":
      return wrongBlocks(question);
    default:
      return question satisfies never;
  }
}

function wrongBlocks({ path, sizeBytes, blockBytes, blocks }: Extract<HashQuestion, { do: "check" }>): number[] {
  return blocks.flatMap(([index, crc]) => {
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
