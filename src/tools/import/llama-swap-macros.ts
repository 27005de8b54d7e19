import { secretName } from "../../api/masked-text.ts";
import { mapAt } from "./source-text.ts";

/** A macro that has no value here. The message says why, without any value. */
export class MacroProblem extends Error {
  override readonly name = "MacroProblem";
}

export type Macros = ReadonlyMap<string, string>;

/** The macros of a map of llama-swap, in its order; values are texts, numbers and booleans. */
export function macrosOf(value: unknown): Macros {
  return new Map(
    Object.entries(mapAt(value)).flatMap(([name, text]) =>
      ["string", "number", "boolean"].includes(typeof text) ? [[name, String(text)] as const] : [],
    ),
  );
}

/** A macro may hold macros that were defined before it: more than this many rounds would be a circle. */
const mostRounds = 32;

/**
 * The text with llama-swap's macros expanded, and `${PORT}` as Berth's `$(PORT)` (llama-swap, docs/configuration.md,
 * "Macros"). Variables of the environment are this command's. Throws MacroProblem for a macro without a value, and for a
 * variable whose name is a secret's: its value would stand in the manifest.
 */
export function expandMacros(text: string, macros: Macros, env: NodeJS.ProcessEnv): string {
  let expanded = text;
  for (let round = 0; round < mostRounds && /\$\{[\w.-]+\}/.test(expanded); round += 1)
    expanded = expanded.replaceAll(/\$\{(env\.)?([\w-]+)\}/g, (_all, fromEnv: string | undefined, name: string) => {
      const value = fromEnv === undefined ? (macros.get(name) ?? (name === "PORT" ? "$(PORT)" : undefined)) : env[name];
      if (fromEnv !== undefined && secretName.test(name))
        throw new MacroProblem(`\${env.${name}} looks like a secret, and its value would stand in the manifest`);
      if (fromEnv !== undefined && value === undefined)
        throw new MacroProblem(`\${env.${name}} is not set here: set it for this command as llama-swap has it`);
      if (value === undefined) throw new MacroProblem(`\${${name}} is no macro of this file`);
      return value;
    });
  if (/\$\{[\w.-]+\}/.test(expanded)) throw new MacroProblem("its macros contain each other");
  return expanded;
}

/** The same; undefined where a macro has no value. */
export function expanded(text: string, macros: Macros, env: NodeJS.ProcessEnv): string | undefined {
  try {
    return expandMacros(text, macros, env);
  } catch (error) {
    if (!(error instanceof MacroProblem)) throw error;
    return undefined;
  }
}
