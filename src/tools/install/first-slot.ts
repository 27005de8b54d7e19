import { constants, type Stats } from "node:fs";
import { chmod, chown, copyFile, link, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { modelRefSchema } from "../../api/names.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes } from "../../cli/output.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import type { DeclaredSlot } from "../../store/files/declared-slots.ts";
import { inNameOf, inOwnersName } from "./as-owner.ts";
import { statusOf } from "./paths.ts";
import { ownerOf, type Site, type Step } from "./site.ts";

const slot = "primary";

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
  if (head !== "GGUF" || !isGgufName(path)) throw noModel(`${path} is no GGUF file`);
  const beside = (await readdir(dirname(path))).filter(isGgufName).map((name) => join(dirname(path), name));
  const found = modelFiles(beside, () => false).find(({ paths }) => paths.includes(path));
  if (found === undefined || found.paths.length !== found.shardCount)
    throw noModel(`${path} is one of ${found?.shardCount ?? 1} parts, and not all of them are beside it`);
  if (!modelRefSchema.safeParse(found.ref).success)
    throw noModel(`${found.ref} cannot be the name of a model: letters, digits and . _ : / @ - are allowed`);
  return found;
}

function noModel(message: string): CommandError {
  return new CommandError("model.unsupported_format", message, "name a GGUF file with --model, or leave it out");
}

async function headOf(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } catch {
    return undefined;
  }
}

/**
 * Puts the model into the models directory, and makes the slot `primary` of it. A slot `primary` of another model stays:
 * `note` then reports it. Throws CommandError where another file has the model's name.
 */
export async function modelSteps(
  site: Site,
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
  const step: Step = {
    what: `make the slot ${slot} of the model ${ref}, in ${file}`,
    isDone: known !== undefined,
    act: async () => {
      const text = `# The model that answers chats. A change of this file takes effect at once.\nenabled = true\n\n[model]\ndefault = ${JSON.stringify(ref)}\n`;
      const owner = await stat(configDir);
      await inNameOf(owner, async () => await writeFileAtomic(file, text, { fsync: true, mode: 0o644 }));
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

async function fileStep(site: Site, path: string, target: string, note: (text: string) => void): Promise<Step> {
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
      await mkdir(dirname(target), { recursive: true });
      if (isLink) {
        const isLinked = await link(path, target).then(
          () => true,
          (error: unknown) => {
            if (["EXDEV", "EPERM", "EMLINK", "EOPNOTSUPP"].includes(errorCode(error) ?? "")) return false;
            throw error;
          },
        );
        if (isLinked) return;
        note(`${path} cannot be linked there, and is copied\n`);
      }
      await copyWhole(site, path, target);
    },
  };
}

/** Whether a hard link serves: the same disk, and a file that the services' user may read. */
async function mayLink(site: Site, source: Stats, directory: string): Promise<boolean> {
  let nearest = directory;
  for (;;) {
    const status = await stat(nearest).catch(() => undefined);
    if (status === undefined && nearest !== "/") nearest = dirname(nearest);
    else if (status?.dev !== source.dev) return false;
    else return (source.mode & 0o004) !== 0 || source.uid === ownerOf(site)?.uid;
  }
}

async function copyWhole(site: Site, path: string, target: string): Promise<void> {
  const partial = join(dirname(target), `.${basename(target)}.partial`);
  try {
    await rm(partial, { force: true });
    await copyFile(path, partial, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await chmod(partial, 0o640);
    const owner = ownerOf(site);
    if (owner !== undefined) await chown(partial, owner.uid, owner.gid);
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
