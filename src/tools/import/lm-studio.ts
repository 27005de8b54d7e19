import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { Omissions, sharing, type Imported, type ImportedSlot } from "./imported.ts";
import { lmSettings } from "./lm-studio-settings.ts";
import { emptySource, parsedSource, pathsBelow, SourceFault, sourceText, whyUnread } from "./source-text.ts";

/** LM Studio unloads a model an hour after its last request (lmstudio.ai/docs, "Idle TTL and Auto-Evict"). */
const idleSeconds = 3600;
const settingsDirectory = ".internal/user-concrete-model-default-config";

/**
 * Reads LM Studio's folders, `models/PUBLISHER/REPOSITORY/FILE.gguf`, and the settings that a person has saved for a model.
 * The files are named where they lie. Throws CommandError where the directory has no such folders.
 */
export async function importLmStudio(directory: string): Promise<Imported> {
  const root = await modelsIn(directory);
  const { isGgufName, isProjectorName, modelFiles } = await import("../../models/model-files.ts");
  const omissions = new Omissions();
  const slots: ImportedSlot[] = [];
  for (const folder of await pathsBelow(root, 2, omissions)) {
    const files = await pathsBelow(folder, 1, omissions);
    const ggufs = files.filter(isGgufName);
    if (ggufs.length === 0 && files.some((name) => name.endsWith(".safetensors")))
      omissions.add(
        { file: folder },
        relative(root, folder),
        "not carried: its weights are safetensors (MLX), and llama.cpp loads GGUF",
      );
    const [projector, second] = ggufs.filter(isProjectorName);
    if (second !== undefined)
      omissions.add(
        { file: folder },
        relative(root, folder),
        `of several projectors ${basename(projector ?? "")} is taken`,
      );
    const models = modelFiles(ggufs);
    for (const { ref, paths, shardCount } of models) {
      const [file = ""] = paths;
      if (shardCount > paths.length) {
        omissions.add({ file }, ref, `not carried: ${paths.length} of its ${shardCount} parts are there`);
        continue;
      }
      const { spec, ownPlace } = await settingsOf(root, file, omissions);
      const key = basename(folder)
        .toLowerCase()
        .replace(/-gguf$/, "");
      const isOnly = models.length === 1;
      slots.push({
        name: isOnly ? key : ref,
        place: ownPlace ?? { file },
        aliases: [relative(root, file).replace(/\.gguf$/i, ""), ...(isOnly ? [] : [`${key}@${quantisation(ref)}`])],
        weights: { paths, projector, name: ref },
        spec: { load: "onDemand", idleSeconds, ...spec },
      });
    }
  }
  if (slots.length === 0 && omissions.sorted().length === 0) throw emptySource(`${root}: it holds no model`);
  return { ...sharing(slots, { name: "lm-studio", budget: "memory" }), omissions: omissions.sorted() };
}

/** LM Studio's directory, or its `models`. */
async function modelsIn(directory: string): Promise<string> {
  const inside = join(directory, "models");
  if ((await stat(inside).catch(() => undefined))?.isDirectory() === true) return inside;
  try {
    await readdir(directory);
  } catch (error) {
    throw new SourceFault({ file: directory }, whyUnread(error), "name LM Studio's directory, such as ~/.lmstudio");
  }
  return directory;
}

/** `q4_k_m` of `Qwen3-8B-Q4_K_M`; LM Studio tells files of one repository apart by it. */
function quantisation(ref: string): string {
  return /[-.]((?:i?q\d|f16|bf16|f32|mxfp4)[\w]*)$/i.exec(ref)?.[1]?.toLowerCase() ?? ref.toLowerCase();
}

/** The settings that a person has saved for the file; none where there are none, or they cannot be read. */
async function settingsOf(
  root: string,
  file: string,
  omissions: Omissions,
): Promise<{ readonly spec: ImportedSlot["spec"]; readonly ownPlace?: { readonly file: string } }> {
  const settings = join(dirname(root), settingsDirectory, `${relative(root, file)}.json`);
  if ((await stat(settings).catch(() => undefined)) === undefined) return { spec: {} };
  try {
    const source = await parsedSource(settings, await sourceText(settings));
    return { spec: lmSettings(source, omissions), ownPlace: { file: settings } };
  } catch (error) {
    if (!(error instanceof SourceFault)) throw error;
    omissions.add(error.place, "its settings", error.why);
    return { spec: {} };
  }
}
