import type { Config } from "../../api/config.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { findLlamaServer } from "../../program/llama-server.ts";
import { askServer } from "../../program/server-facts.ts";
import type { ImportedSlot } from "./imported.ts";

/**
 * Arguments that this machine's llama-server does not know, on which it would end: one line each. Empty where there is no
 * such program, or it prints no help.
 */
export async function unknownFlags(
  slots: readonly ImportedSlot[],
  { llamaServer, engineUser }: Pick<Config, "llamaServer" | "engineUser">,
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  const used = slots.filter(({ weights, spec }) => weights !== undefined && spec.image === undefined);
  if (!used.some(({ spec }) => spec.args !== undefined)) return [];
  const program = await findLlamaServer(llamaServer, env).catch(() => undefined);
  const flags = program === undefined ? undefined : (await askServer(program, { env, engineUser })).flags;
  if (program === undefined || flags === undefined) return [];
  return used.flatMap(({ name, place, spec }) =>
    (spec.args ?? []).flatMap((word) => {
      if (!/^--?[a-z][a-z0-9-]*$/.test(word) || flags.has(word)) return [];
      const message = `${name} ${word}: ${program} knows no such flag and would not start: remove it from args, or name another program in SVC_LLAMA_SERVER`;
      return [diagnosticLine({ ...place, message })];
    }),
  );
}
