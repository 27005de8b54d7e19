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
 * The body that creates a slot, and its name: a full manifest as it is, or a flat spec with `name`. Options win over
 * the fields of a file. Throws CommandError where there is no name, or the file is no good.
 */
export async function newSlot(
  name: string | undefined,
  options: NewSlotOptions,
): Promise<{ slot: string; body: Record<string, unknown> }> {
  const read = options.file === undefined ? {} : await readSpec(options.file);
  const metadata = isRecord(read["metadata"]) ? read["metadata"] : undefined;
  const isManifest = "apiVersion" in read || metadata !== undefined;
  const given = name ?? (isManifest ? metadata?.["name"] : read["name"]);
  if (typeof given !== "string")
    throw new CommandError("slot.unnamed", "the slot has no name", "give one: berth slot create NAME …");
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

async function readSpec(file: string): Promise<Record<string, unknown>> {
  const text = file === "-" ? await pipedIn() : await readFile(file, "utf8");
  try {
    const value: unknown = parse(text);
    if (isRecord(value)) return value;
    throw new CommandError("config.invalid", `${file}: a manifest is a map of fields`);
  } catch (error) {
    if (!(error instanceof YAMLParseError)) throw error;
    const { line, col } = error.linePos?.[0] ?? { line: 1, col: 1 };
    throw new CommandError(
      "config.invalid",
      diagnosticLine({ file, line, column: col, message: "it is neither YAML nor JSON" }),
      "a TOML manifest goes into the slots directory as it is",
    );
  }
}
