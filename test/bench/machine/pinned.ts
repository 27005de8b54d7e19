import { execFile } from "node:child_process";
import { access, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));

/** An earlier commit of this repository, set up to run beside the present one. */
export interface Pinned {
  /** The first eight digits of the commit. */
  readonly name: string;
  readonly root: string;
}

/**
 * Unpacks a commit below `.cache/against` and sets it up there, once; later runs find it. Throws an error that names the
 * commit where git does not know it, and one with the output of `make setup` where that fails.
 */
export async function checkOutPinned(commit: string): Promise<Pinned> {
  const { stdout } = await run("git", ["rev-parse", "--verify", "--quiet", `${commit}^{commit}`], { cwd: root }).catch(
    () => {
      throw new Error(`this clone has no commit ${commit}: name one of \`git log\`, and fetch the whole history`);
    },
  );
  const sha = stdout.trim();
  const directory = join(root, ".cache", "against", sha);
  const pinned = { name: sha.slice(0, 8), root: directory };
  if (await isThere(directory)) return pinned;
  const unfinished = `${directory}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await run("sh", ["-c", `git archive "$0" | tar -x -C "$1"`, sha, unfinished], { cwd: root });
  await run("make", ["setup"], { cwd: unfinished, maxBuffer: 16 * 1024 * 1024 });
  await rename(unfinished, directory);
  return pinned;
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
