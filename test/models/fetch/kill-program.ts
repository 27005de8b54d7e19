import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

/**
 * `kill-program.ts N MODELS_DIR REF SOURCE…`: as `program.ts`, but killed just before the file system is changed for the
 * Nth time from the first content in the store on. Prints each change to standard error.
 */
const [, , text = ""] = process.argv;
process.argv.splice(2, 1);
const last = Number(text);
let count = 0;
let hasBegun = false;

function before(change: string, path: string): void {
  hasBegun ||= change === "rename" && path.includes("/blobs/");
  if (!hasBegun) return;
  count += 1;
  if (count === last) process.kill(process.pid, "SIGKILL");
  process.stderr.write(`${change} ${path}\n`);
}

const { rename, link, rm } = fs;
fs.rename = async (from, to) => {
  before("rename", String(to));
  await rename(from, to);
};
fs.link = async (existing, path) => {
  before("link", String(path));
  await link(existing, path);
};
fs.rm = async (path, options) => {
  before("rm", String(path));
  await rm(path, options);
};
syncBuiltinESMExports();
await import("./program.ts");
