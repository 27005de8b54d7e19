import { spawn } from "node:child_process";
import { mkdtemp, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { slotNameSchema } from "../../api/names.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { CommandError } from "../../cli/client.ts";
import { errorCode } from "../../lib/error-code.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { readText } from "../../lib/read-text.ts";
import { configDirOf } from "./config.ts";
import { actAs, ownerToActAs } from "../../program/owner.ts";
import { checkConfigDir } from "../../program/settings.ts";

export interface Editing {
  readonly env: NodeJS.ProcessEnv;
  /** A file below the configuration directory, or a slot's name. */
  readonly what: string;
  readonly note: (text: string) => void;
  /** Whether to open the editor again after an invalid edit; false where no person can answer. */
  readonly again: () => Promise<boolean>;
}

/**
 * `berth config edit`: opens a copy in the person's editor, checks it together with the rest of the directory, and only
 * then puts it in place. Returns the line for standard output. Throws CommandError when nothing was saved; an edited
 * copy is then kept and named, an unchanged copy is removed.
 */
export async function editConfig({ env, what, note, again }: Editing): Promise<string> {
  const configDir = resolve(configDirOf(env));
  // Root's editor opens root's own copy: an editor run as the directory's owner would have root's terminal, and that
  // user could type into it. Files there are read and written as that user.
  const owner = await ownerToActAs(configDir);
  const asOwner = async <T>(act: () => Promise<T>): Promise<T> => {
    using stack = new DisposableStack();
    if (owner !== undefined) stack.use(await actAs(owner));
    return await act();
  };
  await asOwner(async () => await checkConfigDir(configDir));
  const file = await asOwner(async () => await fileOf(configDir, what));
  const original = await asOwner(async () => await readText(file));
  const copy = join(await mkdtemp(join(env["TMPDIR"] || tmpdir(), "berth-edit-")), basename(file));
  await writeFile(copy, original ?? "", { mode: 0o600 });
  for (;;) {
    const failure = await runEditor(env, copy);
    const text = await readFile(copy, "utf8");
    if (failure !== undefined && text !== (original ?? "")) throw unsaved("editor.failed", failure.message, copy);
    if (text === (original ?? "")) {
      await rm(dirname(copy), { recursive: true });
      if (failure !== undefined) throw failure;
      return `${file}: nothing changed\n`;
    }
    const problems = await asOwner(async () => await problemsOf(configDir, file, text));
    if (problems.length === 0) {
      await asOwner(async () => await save(file, original, text, copy));
      await rm(dirname(copy), { recursive: true });
      const effect = basename(file) === "berth.toml" ? "; it counts from the next start" : "";
      return `saved ${file}${effect}\n`;
    }
    note(`${problems.join("\n")}\n`);
    if (!(await again())) throw unsaved("config.invalid", `${file} is as it was`, copy);
  }
}

async function fileOf(configDir: string, what: string): Promise<string> {
  const named = resolve(configDir, what);
  if (slotNameSchema.safeParse(what).success) {
    for (const ending of ["toml", "yaml", "yml"]) {
      const file = join(configDir, "slots", `${what}.${ending}`);
      if ((await readText(file)) !== undefined) return file;
    }
    return join(configDir, "slots", `${what}.toml`);
  }
  const parts = relative(configDir, named).split("/");
  const isKnown =
    parts.join("/") === "berth.toml" ||
    (parts.length === 2 &&
      ["slots", "models", "upstreams", "groups"].includes(parts[0] ?? "") &&
      /\.(toml|ya?ml)$/.test(parts[1] ?? ""));
  if (isKnown) return named;
  throw new CommandError(
    "config.no_such_file",
    `${what} is no file of the configuration in ${configDir}`,
    "name a slot, berth.toml, or a file such as slots/primary.toml",
  );
}

/** Resolves with the failure. */
async function runEditor(env: NodeJS.ProcessEnv, file: string): Promise<CommandError | undefined> {
  const editor = env["VISUAL"] || env["EDITOR"] || "vi";
  // A Ctrl-C is the editor's: the terminal sends it to this process and to the shell, too, and the edit would be lost.
  const ignore = (): void => undefined;
  process.on("SIGINT", ignore);
  using _restored = { [Symbol.dispose]: () => void process.off("SIGINT", ignore) };
  const child = spawn("sh", ["-c", `trap : INT; ${editor} "$1"`, "sh", file], { env, stdio: "inherit" });
  const code = await new Promise<number | null>((settle, reject) => {
    child.once("error", reject);
    child.once("exit", settle);
  });
  if (code === 0) return undefined;
  const next = code === 127 ? "set EDITOR to an editor that is installed" : undefined;
  return new CommandError("editor.failed", `${editor} ended with ${code ?? "a signal"}; nothing is saved`, next);
}

/** The problems of the edit itself, or of other files because of it. */
async function problemsOf(configDir: string, file: string, text: string): Promise<string[]> {
  const { validateDirectory } = await import("../../store/files/validate.ts");
  const before = new Set((await validateDirectory(configDir)).map(diagnosticLine));
  const after = await validateDirectory(configDir, { edits: new Map([[file, text]]) });
  return after.filter((found) => found.file === file || !before.has(diagnosticLine(found))).map(diagnosticLine);
}

async function save(file: string, original: string | undefined, text: string, copy: string): Promise<void> {
  if ((await readText(file)) !== original) {
    throw unsaved("config.changed", `${file} was changed while it was edited`, copy);
  }
  try {
    // A link stays a link: its target is replaced, with the target's mode.
    const target = original === undefined ? file : await realpath(file);
    const mode = original === undefined ? 0o644 : (await stat(target)).mode & 0o777;
    await writeFileAtomic(target, text, { fsync: true, mode });
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT") throw unsaved("config.no_such_file", `there is no directory ${dirname(file)}`, copy);
    if (code !== "EACCES" && code !== "EPERM" && code !== "EROFS") throw error;
    throw unsaved("config.read_only", `${file} may not be written by this user (${code})`, copy);
  }
}

function unsaved(code: string, message: string, copy: string): CommandError {
  return new CommandError(code, message, `your text is kept in ${copy}`);
}
