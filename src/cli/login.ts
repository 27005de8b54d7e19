import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { CommandError, type Client } from "./client.ts";
import { saveToken } from "./credentials.ts";
import { cell } from "./output.ts";
import type { Input } from "./terminal.ts";

export interface Login {
  readonly client: Client;
  readonly env: NodeJS.ProcessEnv;
  readonly note: (text: string) => void;
  /** A text that a person types without echo, or piped input. */
  readonly readToken: () => Promise<string>;
}

/**
 * Reads a token, tries it, and keeps it for this user and this server. Returns the line for standard output. Throws
 * CommandError when the service refuses it; then nothing is kept.
 */
export async function login({ client, env, note, readToken }: Login): Promise<string> {
  // A field that no other program's answer has: a token is typed for a Berth alone.
  const status = await client.withToken(undefined).one("GET /api/auth/status", "proxy_trusted");
  if (status.enabled === false) return `${client.server} needs no token: authentication is off\n`;
  const { protocol, hostname } = new URL(client.server);
  if (protocol === "http:" && !/^(localhost|127\..*|\[::1\])$/.test(hostname))
    note(`${client.server} is not encrypted: everybody on the network path can read the token\n`);
  const token = (await readToken()).trim();
  if (!/^svc_[^\s.]+\.[^\s.]+$/.test(token)) {
    throw new CommandError(
      "auth.invalid",
      "that is no token; one looks like svc_<id>.<secret>",
      "make one on the machine of the service: berth token create --label ME --scope all",
    );
  }
  const me = await client.withToken(token).one("GET /api/auth/me", "identity");
  const file = await saveToken(env, client.server, token);
  return `logged in to ${client.server} as ${cell(me.identity)} (${cell(me.scope)}); the token is kept in ${file}\n`;
}

/** Removes the token of a server. */
export async function logout(client: Client, env: NodeJS.ProcessEnv): Promise<string> {
  const file = await saveToken(env, client.server, undefined);
  return `forgot the token of ${client.server} in ${file}; it stays valid until \`berth token revoke\`\n`;
}

/** A line of a terminal without echo, or all piped input. Throws CommandError where the person ends it instead. */
export async function readSecret(question: string, input: Input, output: NodeJS.WritableStream): Promise<string> {
  if (input.isTTY !== true) {
    let text = "";
    for await (const chunk of input) text += String(chunk);
    return text;
  }
  output.write(question);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input, output: nowhere, terminal: true });
  try {
    // By Ctrl-C and Ctrl-D.
    const ended = new Promise<undefined>((resolve) => lines.once("close", () => resolve(undefined)));
    const typed = await Promise.race([lines.question(""), ended]);
    if (typed === undefined) throw new CommandError("cancelled", "nothing was given", undefined);
    return typed;
  } finally {
    lines.close();
    output.write("\n");
  }
}
