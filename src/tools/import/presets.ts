import { dirname } from "node:path";
import { secretName } from "../../api/masked-text.ts";
import {
  hasWindowsPath,
  holdsSecret,
  Omissions,
  ownKey,
  secretStays,
  sharing,
  type Imported,
  type ImportedSlot,
} from "./imported.ts";
import { llamaLine, on, sameKey, weightsOf, wordsFor } from "./llama-line.ts";
import { isCount } from "./mapping.ts";
import { SourceFault, sourceText } from "./source-text.ts";
import { literal } from "./words.ts";

/** llama-server's router keeps so many models loaded, unless its command line says otherwise (`--models-max`). */
const modelsMax = 4;
/** Keys that Berth does not carry. */
const notCarried: Readonly<Record<string, string>> = {
  host: "Berth decides where engines listen",
  port: "Berth decides where engines listen",
  "api-key": ownKey,
  "api-key-file": ownKey,
  "hf-token": secretStays,
  hft: secretStays,
  "dedup-cache-models": "Berth lists the models of its own directory",
};
/** A key of a section, with its line, from 1 on. */
interface IniEntry {
  readonly key: string;
  readonly value: string;
  readonly line: number;
}

interface IniSection {
  readonly name: string;
  readonly line: number;
  readonly entries: readonly IniEntry[];
}

/**
 * Reads the presets of llama-server's router (tools/server/README.md, "Model presets"). Throws CommandError with file and
 * line where the file is something else.
 */
export async function importPresets(file: string): Promise<Imported> {
  const sections = iniSections(file, await sourceText(file));
  const omissions = new Omissions();
  const common = sections.find(({ name }) => name === "*")?.entries ?? [];
  const models = sections.filter(({ name }) => name !== "" && name !== "*");
  if (models.length === 0) throw new SourceFault({ file, line: 1 }, "it has no section of a model, such as [qwen3-4b]");
  for (const { key, line } of sections[0]?.entries ?? [])
    if (key !== "version") omissions.add({ file, line }, key, "it stands before the first section; write it below [*]");
  for (const [at, { name, line }] of models.entries()) {
    const first = models.findIndex((other) => other.name === name);
    if (first < at)
      omissions.add({ file, line }, `[${name}]`, `line ${models[first]?.line} has that name, too: a slot of its own`);
  }
  const slots = models.flatMap((section) => slotOf(section, common, file, omissions) ?? []);
  const shared = sharing(slots, { name: "llama-server", budget: modelsMax });
  if (shared.groups.length > 0)
    omissions.add(
      { file, line: 1 },
      "--models-max",
      `the router's command line is in no preset: group llama-server has its default, ${modelsMax} models at once`,
    );
  return { ...shared, omissions: omissions.sorted() };
}

function slotOf(
  { name, line, entries }: IniSection,
  shared: readonly IniEntry[],
  file: string,
  omissions: Omissions,
): ImportedSlot | undefined {
  const place = { file, line };
  const keys = new Map([...shared, ...entries].map((entry) => [sameKey[entry.key] ?? entry.key, entry]));
  const words: string[] = [];
  const env: Record<string, string> = {};
  for (const [key, { value, line: at }] of keys) {
    const why = notCarried[key] ?? (secretName.test(key) || holdsSecret(`${key}=${value}`) ? secretStays : undefined);
    if (why !== undefined) omissions.add({ file, line: at }, `[${name}] ${key}`, why);
    else if (key.startsWith("LLAMA_")) env[key] = value;
    else if (!["version", "load-on-startup", "stop-timeout"].includes(key)) words.push(...wordsFor(key, value));
  }
  if (words.some(hasWindowsPath)) {
    omissions.add(place, `[${name}]`, "the model is not carried: it names paths of Windows");
    return undefined;
  }
  const context = { omissions, place, name: `[${name}]`, directory: dirname(file) };
  const found = llamaLine(words, context);
  const seconds = Number(keys.get("stop-timeout")?.value);
  const own = {
    ...(on.test(keys.get("load-on-startup")?.value ?? "")
      ? {}
      : { load: "onDemand" as const, idleSeconds: found.idleSeconds ?? 0 }),
    env,
    stopSeconds: isCount(seconds) ? seconds : undefined,
  };
  const weights = weightsOf(found, context);
  if (weights === undefined) {
    // Without a source the section's name is that of a model in llama.cpp's cache.
    const source = found.fetches ? [] : ["--hf-repo", name];
    const command = ["llama-server", ...[...words, ...source].map(literal), "--host", "$(HOST)", "--port", "$(PORT)"];
    return {
      name,
      place,
      aliases: found.aliases,
      spec: { engine: "custom", command, ...own, model: { default: name } },
    };
  }
  return { name, place, aliases: found.aliases, weights, spec: { ...found.spec, ...own } };
}

/**
 * The sections of an INI file as llama-server reads them (llama.cpp, common/preset.cpp): `;` and `#` begin comments, also
 * behind a value, and there are no quotes. Keys before the first section are those of a section without a name. Throws
 * CommandError with file and line, without any text of the file.
 */
function iniSections(file: string, text: string): readonly IniSection[] {
  const sections: (IniSection & { readonly entries: IniEntry[] })[] = [{ name: "", line: 1, entries: [] }];
  for (const [index, raw] of text
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\n|\r/)
    .entries()) {
    const line = index + 1;
    const plain = raw.trim();
    if (plain === "" || /^[;#]/.test(plain)) continue;
    const header = /^\[\s*([^\]]*?)\s*\]\s*(?:[;#].*)?$/.exec(plain);
    const entry = /^([A-Za-z_][\w.-]*)\s*=\s*(.*)$/.exec(plain);
    if (header !== null) sections.push({ name: header[1] ?? "", line, entries: [] });
    else if (entry === null) throw new SourceFault({ file, line }, "it is neither [section] nor key = value");
    else
      sections.at(-1)?.entries.push({ key: entry[1] ?? "", value: (entry[2] ?? "").replace(/\s*[;#].*$/, ""), line });
  }
  return sections;
}
