import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** Files of the repository, by path from its root: tracked ones, and new ones that Git would not ignore. */
export function repositoryFiles(): string[] {
  const output = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  });
  return [...new Set(output.split("\0"))].filter((path) => path !== "" && read(path) !== undefined);
}

/** Content of a file, undefined when it is gone or holds bytes that are no text. */
export function read(path: string): string | undefined {
  try {
    const text = readFileSync(join(root, path), "utf8");
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
