import { lstat, open, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CommandError, failure, type Client } from "../src/cli/client.ts";
import { cell } from "../src/cli/output.ts";
import { presentJob } from "../src/cli/pulls.ts";
import { StatusLine, type Screen } from "../src/cli/terminal.ts";
import { errorMessage } from "../src/lib/error-code.ts";
import { readGguf } from "../src/models/gguf.ts";
import { complain, exists, Stop, textOf } from "./run-stop.ts";

/** The meaning of MODEL: a file of this machine, or a name or an address that the running Berth knows how to fetch. */
export type Given = { readonly path: string } | { readonly name: string };

/** A path that exists, begins like a path or ends in `.gguf` is a file; everything else is a name or an address. */
export async function givenModel(given: string): Promise<Given> {
  if (/^file:\/\//i.test(given)) return { path: fileURLToPath(given) };
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(given)) return { name: given };
  const path = resolve(given);
  return (await exists(path)) || /^[./~]|\.gguf$/i.test(given) ? { path } : { name: given };
}

/** Throws Stop for a path that is no GGUF file. */
export async function checkModel(path: string): Promise<void> {
  if (!(await exists(path)))
    throw new Stop(
      `MODEL=${path} is not there; give the path of a GGUF file, a name of \`bin/berth model catalog\`, or an address`,
    );
  if ((await stat(path)).isDirectory()) throw new Stop(`MODEL=${path} is a directory; give the path of a GGUF file`);
  try {
    await readGguf(path);
  } catch (error) {
    throw new Stop(`MODEL=${path} ${errorMessage(error)}; give the path of a GGUF file`);
  }
}

/** Whether something has that name, also a link that leads nowhere. */
export async function isTaken(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

const pollMs = 500;
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

/**
 * Puts the given file where the example slot of `runDir` expects it: under the name in its manifest. Returns the line for
 * a person where it has changed the manifest.
 */
export async function useModel(path: string, runDir: string): Promise<string | undefined> {
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
  if (next === text) return undefined;
  await writeFile(manifest, next);
  return changedLine(manifest, ref);
}

function changedLine(manifest: string, ref: string): string {
  return `${manifest}: its model is now ${ref}, as MODEL says; the rest of it stays`;
}

interface Serving {
  readonly runDir: string;
  readonly screen: Screen;
  readonly signal: AbortSignal;
}

interface Watched extends Serving {
  /** Called once, when an attempt to fetch it has failed and others follow: nothing is shown from then on. */
  readonly onTrouble: (why: string) => void;
}

/**
 * The ref that the slot primary is to hold now; undefined, which is said, where that cannot be had, or not yet: the slot keeps
 * the model of its manifest until then. Throws CommandError without a valid token.
 */
export async function serveGiven(client: Client, name: string, serving: Serving): Promise<string | undefined> {
  return await new Promise((resolve, reject) => {
    const onTrouble = (why: string): void => {
      complain(
        `MODEL=${name} cannot be fetched for now: ${why}; it is tried again for an hour, and primary switches to it by ` +
          "itself once it is here; until then it keeps its model",
      );
      resolve(undefined);
    };
    serveOrSay(client, name, { ...serving, onTrouble }).then(resolve, reject);
  });
}

async function serveOrSay(client: Client, name: string, watched: Watched): Promise<string | undefined> {
  try {
    const { ref, changed } = await serveNamed(client, name, watched);
    if (changed !== undefined) watched.screen.write(`${changed}\n`);
    return ref;
  } catch (error) {
    if (error instanceof CommandError && error.code.startsWith("auth.")) throw error;
    if (!watched.signal.aborted) complain(`MODEL=${name} is not served, and primary keeps its model: ${textOf(error)}`);
    return undefined;
  }
}

/**
 * Has a running Berth serve the model of that name or address in its slot primary, and writes it into the slot's
 * manifest; a model that is not here is fetched, with its progress on `screen`. Throws CommandError.
 */
async function serveNamed(
  client: Client,
  name: string,
  { runDir, ...fetching }: Watched,
): Promise<{ readonly ref: string; readonly changed: string | undefined }> {
  const ref = (await isHere(client, name)) ? name : await fetched(client, name, fetching);
  const slot = await client.one("GET /api/slots/{name}", "name", { params: primary });
  if (slot.model === ref) return { ref, changed: undefined };
  await client.call("POST /api/slots/{name}/swap", { params: primary, body: { model: ref, write: true } });
  return { ref, changed: changedLine(join(runDir, "config/slots/primary.toml"), ref) };
}

/** The slot that a clone's Berth serves its model in. */
const primary = { name: "primary" };

async function isHere(client: Client, name: string): Promise<boolean> {
  const models = await client.list("GET /api/models");
  return models.some(({ id, state }) => id === name && (state === "available" || state === "assigned"));
}

/** The ref of the pulled model. */
async function fetched(
  client: Client,
  name: string,
  { screen, signal, onTrouble }: Omit<Watched, "runDir">,
): Promise<string> {
  let job = await client.one("POST /api/models/pull", "id", { body: { model: name } });
  using line = new StatusLine(screen);
  let isTroubled = false;
  while (["queued", "running", "paused"].includes(cell(job.state))) {
    const { fact, detail, trouble } = presentJob(job);
    if (!isTroubled) line.show(fact, detail);
    if (!isTroubled && trouble !== undefined && typeof job.retry_at === "string") {
      isTroubled = true;
      line[Symbol.dispose]();
      onTrouble(trouble);
    }
    await delay(pollMs, undefined, { signal });
    job = await client.one("GET /api/pulls/{id}", "id", { params: { id: cell(job.id) } });
  }
  if (job.state === "completed") return cell(job.model);
  const { code, message } = job.error ?? {};
  throw await failure(code ?? "model.pull_failed", message ?? "the pull was cancelled");
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
