import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import type { ModelRecord } from "../../api/model.ts";
import type { Workload } from "../../api/workload.ts";
import { savePathFlag } from "../../engines/kept-context.ts";
import type { Runtimes } from "../../runtimes/runtime.ts";

/** Words of a launch line that may differ for the same context. */
const freeFlags: ReadonlySet<string> = new Set(["--host", "--port", "--threads", savePathFlag]);

/**
 * Everything that must be equal for a saved context: workload, derived settings, the model's and the program's files.
 * `image`: identity of the image that the program is in.
 */
export async function contextKey(
  { hash, command, env }: Workload,
  { fingerprint, sha256 }: ModelRecord,
  image?: string,
): Promise<string> {
  const { HOST: _host, PORT: _port, ...variables } = env;
  const words = command.filter((word, index) => !freeFlags.has(word) && !freeFlags.has(command[index - 1] ?? ""));
  const files = await Promise.all(words.filter((word) => word.startsWith("/")).map(identityOf));
  return createHash("sha256")
    .update(
      JSON.stringify([hash, words, variables, fingerprint, sha256, files, ...(image === undefined ? [] : [image])]),
    )
    .digest("hex");
}

/** Identity of the content of the image that the workload runs; undefined: it runs a program of this machine. */
export async function imageOf(runtime: Pick<Runtimes, "preparation">, workload: Workload): Promise<string | undefined> {
  const found = await runtime.preparation?.(workload, "");
  return found?.state === "ready" ? found.program : undefined;
}

async function identityOf(path: string): Promise<readonly (string | number)[]> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? [path] : [path, found.dev, found.ino, found.size, found.mtimeMs];
}
