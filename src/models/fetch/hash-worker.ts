import { createHash, type Hash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import type { HashAnswer, HashQuestion } from "./hash-thread.ts";

/** Runs on a separate thread: reading and hashing here may take all of a core. */
const buffer = Buffer.allocUnsafeSlow(256 * 1024);
/** Each hash, with the position up to which its file was read. */
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

function done({ id, path, step }: HashQuestion): string | undefined {
  const begun = hashes.get(id) ?? { hash: createHash("sha256"), at: 0 };
  if (typeof step === "number") {
    hashes.set(id, begun);
    read(path, begun, step);
    return undefined;
  }
  hashes.delete(id);
  return step === "digest" ? begun.hash.digest("hex") : undefined;
}

/** Throws where the file is shorter: somebody else has cut it off. */
function read(path: string, begun: { readonly hash: Hash; at: number }, to: number): void {
  const file = openSync(path, "r");
  try {
    while (begun.at < to) {
      const length = readSync(file, buffer, 0, Math.min(buffer.length, to - begun.at), begun.at);
      if (length === 0) throw new Error(`${path} is shorter than what was written to it`);
      begun.hash.update(buffer.subarray(0, length));
      begun.at += length;
    }
  } finally {
    closeSync(file);
  }
}
