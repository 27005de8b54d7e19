import { lstat, open, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { errorMessage } from "../src/lib/error-code.ts";
import { readGguf } from "../src/models/gguf.ts";
import { exists, Stop } from "./run-stop.ts";

/** The path of MODEL. An address gets an error of its own, before a file of that name is looked up. */
export function modelPath(given: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(given))
    throw new Stop(
      `MODEL=${given} is an address; give the path of a GGUF file, or run make run without MODEL and, in another terminal, ` +
        `bin/berth model pull ${given}`,
    );
  return resolve(given);
}

/** Throws Stop for a path that is no GGUF file. */
export async function checkModel(path: string): Promise<void> {
  if (!(await exists(path))) throw new Stop(`MODEL=${path} is not there; give the path of a GGUF file`);
  if ((await stat(path)).isDirectory()) throw new Stop(`MODEL=${path} is a directory; give the path of a GGUF file`);
  try {
    await readGguf(path);
  } catch (error) {
    throw new Stop(`MODEL=${path} ${errorMessage(error)}; give the path of a GGUF file`);
  }
}

const pieceBytes = 4 * 1024 ** 2;

/** Whether two files have the same bytes. */
async function isSameFile(one: string, other: string): Promise<boolean> {
  await using first = await open(one);
  await using second = await open(other);
  const { size } = await first.stat();
  if (size !== (await second.stat()).size) return false;
  for (let at = 0; at < size; at += pieceBytes) {
    const [a, b] = [Buffer.alloc(pieceBytes), Buffer.alloc(pieceBytes)];
    await Promise.all([first.read(a, 0, pieceBytes, at), second.read(b, 0, pieceBytes, at)]);
    if (!a.equals(b)) return false;
  }
  return true;
}

/** Puts the given file where the example slot of `runDir` expects it: under the name in its manifest. */
export async function useModel(path: string, runDir: string): Promise<void> {
  const { ref, files } = linksFor(path);
  for (const [name, file] of files) {
    const target = join(runDir, "models", name);
    if (target === file) continue;
    // An earlier link is replaced; a file may be the only copy of a model.
    const known = await lstat(target).catch(() => undefined);
    if (known?.isFile() === true && (await isSameFile(target, file))) continue;
    if (known?.isSymbolicLink() === false)
      throw new Stop(`${target} is another file of that name; move it away, or give it as MODEL`);
    await rm(target, { force: true });
    await symlink(file, target);
  }
  const manifest = join(runDir, "config/slots/primary.toml");
  const text = await readFile(manifest, "utf8");
  const line = /^default = .*$/m;
  if (!line.test(text))
    throw new Stop(`${manifest} has no line \`default = "..."\` under [model]; add one for MODEL to set`);
  const next = text.replace(line, () => `default = ${JSON.stringify(ref)}`);
  if (next !== text) await writeFile(manifest, next);
}

/** A valid name for the model in a manifest, and the links to its file or all of its parts. */
function linksFor(path: string): { ref: string; files: readonly (readonly [name: string, file: string])[] } {
  const [, stem = "", count = ""] = /^(.*)-\d{5}-of-(\d{5})$/.exec(basename(path, ".gguf")) ?? [];
  const plain = (name: string): string =>
    name
      .replaceAll(/[^A-Za-z0-9._-]+/g, "-")
      .replace(/^[^A-Za-z0-9]+/, "")
      .slice(0, 180) || "model";
  if (count === "") {
    const ref = plain(basename(path, ".gguf"));
    return { ref, files: [[`${ref}.gguf`, path]] };
  }
  const ref = plain(stem);
  const parts = Array.from(
    { length: Number(count) },
    (_, index) => `-${String(index + 1).padStart(5, "0")}-of-${count}`,
  );
  return { ref, files: parts.map((part) => [`${ref}${part}.gguf`, join(dirname(path), `${stem}${part}.gguf`)]) };
}
