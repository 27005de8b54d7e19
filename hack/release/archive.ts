import { ran } from "./ran.ts";

/** Options of GNU tar by which the same files give the same bytes. `seconds`: the time of every file. */
export const sameBytes = (seconds: number): readonly string[] => [
  "--sort=name",
  `--mtime=@${seconds}`,
  "--mode=u=rwX,go=rX",
  "--owner=0",
  "--group=0",
  "--numeric-owner",
  "--format=gnu",
];

/** Gives all files and directories below the same modes on every machine, and that time. */
export async function normalise(directory: string, seconds: number): Promise<void> {
  await ran("chmod", ["-R", "u=rwX,go=rX", directory]);
  await ran("find", [directory, "-exec", "touch", "-h", "-d", `@${seconds}`, "{}", "+"]);
}

/** Writes `name`, a directory of `parent`, as a .tar.gz. */
export async function tarball(file: string, parent: string, name: string, seconds: number): Promise<void> {
  await ran("tar", ["-C", parent, ...sameBytes(seconds), "--use-compress-program=gzip -n", "-cf", file, name]);
}
