import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CommandError } from "./client.ts";

/** Tokens by server, as `berth login` keeps them for one user. */
type Tokens = Readonly<Record<string, string>>;

/** Where a user's tokens are kept; undefined without a home. */
export function credentialsFile(env: NodeJS.ProcessEnv): string | undefined {
  const home = env["HOME"] ? join(env["HOME"], ".config") : undefined;
  const base = env["XDG_CONFIG_HOME"] || home;
  return base === undefined ? undefined : join(base, "berth", "credentials.json");
}

/** The token for a server, undefined where there is none. Throws CommandError where others may read the file. */
export async function savedToken(env: NodeJS.ProcessEnv, server: string): Promise<string | undefined> {
  const file = credentialsFile(env);
  return file === undefined ? undefined : (await readTokens(file))[keyOf(server)];
}

/** Keeps a token for a server in a file that nobody else may read. Undefined forgets it. Returns the file. */
export async function saveToken(env: NodeJS.ProcessEnv, server: string, token: string | undefined): Promise<string> {
  const file = credentialsFile(env);
  if (file === undefined) {
    throw new CommandError(
      "credentials.nowhere",
      "there is no HOME to keep a token in",
      "give it in SVC_TOKEN instead",
    );
  }
  const { [keyOf(server)]: _old, ...others } = await readTokens(file);
  const servers = token === undefined ? others : { ...others, [keyOf(server)]: token };
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, `${JSON.stringify({ schema: 1, servers }, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    await rename(temporary, file);
  } finally {
    await rm(temporary, { force: true });
  }
  return file;
}

/** One service, however its address is written. */
function keyOf(server: string): string {
  return URL.canParse(server) ? new URL(server).origin : server;
}

async function readTokens(file: string): Promise<Tokens> {
  let text: string;
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) {
      throw new CommandError("credentials.exposed", `${file} may be read by others`, `chmod 600 ${file}`);
    }
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) return {};
    throw error;
  }
  try {
    return tokensIn(JSON.parse(text));
  } catch {
    throw new CommandError("credentials.invalid", `${file} does not read as JSON`, "remove it, and run `berth login`");
  }
}

function tokensIn(value: unknown): Tokens {
  const servers = typeof value === "object" && value !== null && "servers" in value ? value.servers : undefined;
  if (typeof servers !== "object" || servers === null) return {};
  return Object.fromEntries(
    Object.entries(servers).flatMap(([server, token]: [string, unknown]) =>
      typeof token === "string" ? [[server, token]] : [],
    ),
  );
}
