import { createInterface } from "node:readline/promises";
import type { Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import type { Input } from "../../cli/terminal.ts";
import { isPrivateName } from "../proxy/caddyfile.ts";

/** The settings of the edge proxy that are missing, asked for on a terminal. Throws CommandError where a person ends it. */
export async function askForEdge(
  config: Pick<Config, "adminUser" | "adminPassword" | "hostname" | "tlsEmail">,
  isNameGiven: boolean,
  input: Input,
  output: NodeJS.WritableStream,
): Promise<Readonly<Record<string, string>>> {
  const { readSecret } = await import("../../cli/login.ts");
  const answers: Record<string, string> = {};
  const hostname = isNameGiven
    ? config.hostname
    : await ask("name of this machine for clients", config.hostname, input, output);
  answers["SVC_HOSTNAME"] = hostname;
  if (!isPrivateName(hostname) && config.tlsEmail === undefined)
    answers["SVC_TLS_EMAIL"] = await ask("your address, for the certificate's authority", "", input, output);
  if (config.adminPassword !== undefined) return answers;
  answers["SVC_ADMIN_USER"] = config.adminUser ?? (await ask("user for people", "admin", input, output));
  answers["SVC_ADMIN_PASSWORD"] = await readSecret("password for people (8 characters or more): ", input, output);
  return answers;
}

async function ask(what: string, usual: string, input: Input, output: NodeJS.WritableStream): Promise<string> {
  const lines = createInterface({ input, output });
  try {
    const ended = new Promise<undefined>((resolve) => lines.once("close", () => resolve(undefined)));
    const question = usual === "" ? `${what}: ` : `${what} [${usual}]: `;
    const typed = await Promise.race([lines.question(question), ended]);
    if (typed === undefined) throw new CommandError("cancelled", "nothing was given", undefined);
    return typed.trim() || usual;
  } finally {
    lines.close();
  }
}
