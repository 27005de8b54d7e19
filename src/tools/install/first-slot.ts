import { constants, type Stats } from "node:fs";
import { link, mkdir, open, readdir, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { modelRefSchema } from "../../api/names.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes } from "../../cli/output.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { namingFile } from "../../lib/disk-space.ts";
import { errorCode } from "../../lib/error-code.ts";
import { distrust } from "../../lib/trusted-path.ts";
import type { Owner } from "../../program/owner.ts";
import type { DeclaredSlot } from "../../store/files/declared-slots.ts";
import { inNameOf, inOwnersName } from "./as-owner.ts";
import { nearest, statusOf } from "./paths.ts";
import { ownerOf, type InstallTarget, type Step } from "./install-target.ts";

const slot = "primary";
const chunkBytes = 1024 * 1024;

interface GivenModel {
  readonly ref: string;
  readonly paths: readonly string[];
}

/** The model of a GGUF file, with all its shards. Throws CommandError where the file is no such model. */
export async function givenModel(file: string): Promise<GivenModel> {
  const path = resolve(file);
  const { modelFiles, isGgufName } = await import("../../models/model-files.ts");
  const head = await headOf(path);
  if (head === undefined) throw noModel(`there is no file ${path} that may be read`);
  if (head !== "GGUF") throw noModel(`${path} is no GGUF file`);
  if (!isGgufName(path)) throw noModel(`the name of ${path} does not end in .gguf`, "rename it");
  const beside = (await readdir(dirname(path))).filter(isGgufName).map((name) => join(dirname(path), name));
  const found = modelFiles(beside, () => false).find(({ paths }) => paths.includes(path));
  if (found === undefined || found.paths.length !== found.shardCount)
    throw noModel(`${path} is one of ${found?.shardCount ?? 1} parts, and not all of them are beside it`);
  if (!modelRefSchema.safeParse(found.ref).success)
    throw noModel(`${path} has a name that a model cannot have`, "rename it: letters, digits and . _ - are allowed");
  return found;
}

function noModel(message: string, next = "name a GGUF file with --model, or leave it out"): CommandError {
  return new CommandError("model.unsupported_format", message, next);
}

async function headOf(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return await magicOf(file);
  } catch {
    return undefined;
  }
}

async function magicOf(file: FileHandle): Promise<string> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
  return buffer.toString("latin1", 0, bytesRead);
}

/**
 * Puts the model into the models directory, and makes the slot `primary` of it. A slot `primary` of another model stays:
 * `note` then reports it. Throws CommandError where another file has the model's name.
 */
export async function modelSteps(
  site: InstallTarget,
  { ref, paths }: GivenModel,
  note: (text: string) => void,
): Promise<readonly Step[]> {
  const { modelsDir, configDir } = site.config;
  const steps: Step[] = [];
  for (const path of paths) steps.push(await fileStep(site, path, join(modelsDir, basename(path)), note));
  const known = (await slotsOf(configDir)).find(({ name }) => name === slot);
  if (known !== undefined && known.spec.model.default !== ref)
    note(
      `the slot ${slot} stays as ${known.file} declares it; \`berth slot swap ${slot} ${ref}\` loads the model there\n`,
    );
  const file = join(configDir, "slots", `${slot}.toml`);
  const isThere = (await statusOf(file)) !== undefined;
  if (known === undefined && isThere) note(`${file} stays: it declares no valid slot, see \`berth config validate\`\n`);
  const step: Step = {
    what: `make the slot ${slot} of the model ${ref}, in ${file}`,
    isDone: known !== undefined || isThere,
    act: async () => {
      const text = `# The model that answers chats. A change of this file takes effect at once.\nenabled = true\n\n[model]\ndefault = ${JSON.stringify(ref)}\n`;
      await inOwnersName(configDir, async () => await writeFileAtomic(file, text, { fsync: true, mode: 0o644 }));
    },
  };
  return [...steps, step];
}

/** The slots that are declared; none without the directory. */
export async function slotsOf(configDir: string): Promise<readonly DeclaredSlot[]> {
  if ((await statusOf(join(configDir, "slots"))) === undefined) return [];
  const { slotsInDirectory } = await import("../../store/files/declared-slots.ts");
  // A manifest of another user is not read.
  return await inOwnersName(configDir, async () => await slotsInDirectory(configDir));
}

async function fileStep(
  site: InstallTarget,
  path: string,
  target: string,
  note: (text: string) => void,
): Promise<Step> {
  const source = await stat(path);
  const known = await stat(target).catch(() => undefined);
  if (known !== undefined && known.size !== source.size)
    throw new CommandError(
      "install.file_in_the_way",
      `${target} is another file than ${path}`,
      "move it away, or rename the model",
    );
  const isLink = await mayLink(site, source, dirname(target));
  return {
    what: isLink ? `link ${path} as ${target}` : `copy ${path} to ${target} (${bytes(source.size)})`,
    isDone: known !== undefined,
    act: async () => {
      const owner = ownerOf(site);
      // The service's user may replace any part of a path there by a link, which root would follow.
      const actor = distrust(dirname(target), { uid: 0 }) === undefined ? undefined : owner;
      await inNameOf(actor, async () => await mkdir(dirname(target), { recursive: true }));
      if (isLink) {
        if (await isLinked(path, target, actor)) return;
        note(`${path} cannot be linked there, and is copied\n`);
      }
      // Read as root, also where it is for root alone.
      await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
      if ((await magicOf(file)) !== "GGUF") throw noModel(`${path} is no GGUF file`);
      await inNameOf(actor, async () => await copyWhole(file, target, owner));
    },
  };
}

/** Whether a hard link serves: the same disk, and a file that the services' user may read. */
async function mayLink(site: InstallTarget, source: Stats, directory: string): Promise<boolean> {
  if ((await stat(await nearest(directory))).dev !== source.dev) return false;
  return (source.mode & 0o004) !== 0 || source.uid === ownerOf(site)?.uid;
}

/**
 * Links the file into a directory that was opened as its owner: no link at the path leads elsewhere. Only root may link a
 * file of others. False where the file system permits no link.
 */
async function isLinked(path: string, target: string, actor: Owner | undefined): Promise<boolean> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY;
  await using directory = await inNameOf(actor, async () => await open(dirname(target), flags));
  if (actor !== undefined && (await directory.stat()).uid !== actor.uid) return false;
  try {
    await link(await realpath(path), `/proc/self/fd/${directory.fd}/${basename(target)}`);
    return true;
  } catch (error) {
    if (["EXDEV", "EPERM", "EMLINK", "EOPNOTSUPP"].includes(errorCode(error) ?? "")) return false;
    throw error;
  }
}

async function copyWhole(source: FileHandle, target: string, owner: Owner | undefined): Promise<void> {
  const partial = join(dirname(target), `.${basename(target)}.partial`);
  await rm(partial, { force: true });
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    await using file = await open(partial, flags, 0o640);
    await file.chmod(0o640);
    // In a directory of root's alone.
    if (owner !== undefined && process.geteuid?.() === 0) await file.chown(owner.uid, owner.gid);
    const chunk = Buffer.alloc(chunkBytes);
    for (let at = 0, size: number; (size = (await source.read(chunk, 0, chunkBytes, at)).bytesRead) > 0; at += size)
      await file.writeFile(chunk.subarray(0, size));
    await file.sync();
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw namingFile(error, target);
  }
}
