import { join } from "node:path";
import { parse } from "smol-toml";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { readSmallText } from "../../lib/small-file.ts";
import { manifestLimitBytes } from "./manifest-limit.ts";
import type { Diagnostic } from "../store.ts";
import { tomlProblem } from "./toml-problem.ts";

export interface BerthToml {
  readonly values: Readonly<Record<string, unknown>>;
  readonly diagnostics: readonly Diagnostic[];
}

/** The text of `<config>/berth.toml`; empty without the file. */
export async function readBerthToml(configDir: string): Promise<BerthToml> {
  const file = join(configDir, "berth.toml");
  try {
    return parseBerthToml(file, await readSmallText(file, manifestLimitBytes));
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return { values: {}, diagnostics: [] };
    const message = `cannot be read: ${errorMessage(error)}`;
    return { values: {}, diagnostics: [{ reason: "Unreadable", file, message }] };
  }
}

/** The same for an unsaved text. */
export function parseBerthToml(file: string, text: string): BerthToml {
  try {
    return { values: parse(text), diagnostics: [] };
  } catch (error) {
    return { values: {}, diagnostics: [{ reason: "InvalidSpec", file, ...tomlProblem(error, text) }] };
  }
}
