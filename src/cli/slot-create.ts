import { readFile } from "node:fs/promises";
import { parse, YAMLParseError } from "yaml";
import { diagnosticLine } from "../api/diagnostic.ts";
import { pipedIn } from "./chat.ts";
import { CommandError } from "./client.ts";
import { isRecord } from "./output.ts";

export interface NewSlotOptions {
  readonly file?: string;
  readonly model?: string;
  readonly engine?: string;
  readonly load?: string;
  readonly alias?: readonly string[];
  readonly contextSize?: number;
}

/**
 * The body that creates a slot, and its name: a full manifest unchanged, or a flat spec with `name`. Options take
 * precedence over the fields of a file; the file `-` is `input`. Undefined: no name. Throws CommandError for an invalid
 * file.
 */
export async function newSlot(
  name: string | undefined,
  options: NewSlotOptions,
  input: () => NodeJS.ReadableStream,
): Promise<{ slot: string | undefined; body: Record<string, unknown> }> {
  const read = options.file === undefined ? {} : await readSpec(options.file, input);
  const metadata = isRecord(read["metadata"]) ? read["metadata"] : undefined;
  const isManifest = "apiVersion" in read || metadata !== undefined;
  const given = name ?? (isManifest ? metadata?.["name"] : read["name"]);
  if (typeof given !== "string") return { slot: undefined, body: {} };
  const spec = withOptions(isManifest && isRecord(read["spec"]) ? read["spec"] : isManifest ? {} : read, options);
  const body = isManifest ? { ...read, metadata: { ...metadata, name: given }, spec } : { ...spec, name: given };
  return { slot: given, body };
}

function withOptions(
  spec: Readonly<Record<string, unknown>>,
  { model, engine, load, alias, contextSize }: NewSlotOptions,
): Record<string, unknown> {
  const known = isRecord(spec["model"]) ? spec["model"] : {};
  const held = {
    ...known,
    ...(model === undefined ? {} : { default: model }),
    ...(contextSize === undefined ? {} : { contextSize }),
  };
  return {
    ...spec,
    ...(engine === undefined ? {} : { engine }),
    ...(load === undefined ? {} : { load }),
    ...(alias === undefined ? {} : { aliases: alias }),
    ...(Object.keys(held).length === 0 ? {} : { model: held }),
  };
}

const tomlStep = "a TOML manifest goes into the slots directory as it is";

async function readSpec(file: string, input: () => NodeJS.ReadableStream): Promise<Record<string, unknown>> {
  const text = file === "-" ? await pipedIn(input(), "pipe a manifest in, or name its file") : await readText(file);
  const place = file === "-" ? "standard input" : file;
  try {
    const value: unknown = parse(text);
    if (isRecord(value)) return value;
    throw new CommandError("config.invalid", `${place}: a manifest is a map of fields`, tomlStep);
  } catch (error) {
    if (!(error instanceof YAMLParseError)) throw error;
    const { line, col: column } = error.linePos?.[0] ?? { line: 1, col: 1 };
    const at = { file: place, line, column };
    if (error.code === "MULTIPLE_DOCS") {
      throw new CommandError(
        "config.invalid",
        diagnosticLine({ ...at, message: "another manifest begins here, and one is created at a time" }),
        "split the file, or put it into the slots directory as it is",
      );
    }
    const [reason = ""] = error.message.split(/ at line |\n/);
    const message = `it is neither YAML nor JSON: ${reason}`;
    throw new CommandError("config.invalid", diagnosticLine({ ...at, message }), tomlStep);
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: "there is no such file",
      EISDIR: "it is a directory",
      EACCES: "you may not read it",
    };
    throw new CommandError(
      "config.unreadable",
      `${file}: ${reasons[code] ?? code}`,
      "give a file, or - for standard input",
    );
  }
}
