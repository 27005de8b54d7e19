import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CommandError } from "./client.ts";

/** Tokens by server, as `berth login` keeps them for one user. */
type Tokens = Readonly<Record<string, string>>;

/**
 * The file of a user's tokens; undefined without a home. Not below the configuration directory, which many people keep
 * in Git.
 */
export function credentialsFile(env: NodeJS.ProcessEnv): string | undefined {
  const base = env["XDG_DATA_HOME"] || (env["HOME"] ? join(env["HOME"], ".local/share") : undefined);
  return base === undefined ? undefined : join(base, "berth", "credentials.json");
}

/** The token for a server, or undefined. Throws CommandError where other users may read the file. */
export async function savedToken(env: NodeJS.ProcessEnv, server: string): Promise<string | undefined> {
  const file = credentialsFile(env);
  return file === undefined ? undefined : (await readTokens(file))[serverKey(server)];
}

/** Keeps a token for a server in a file that no other user may read. Undefined removes it. Returns the file. */
export async function saveToken(env: NodeJS.ProcessEnv, server: string, token: string | undefined): Promise<string> {
  const file = credentialsFile(env);
  if (file === undefined) {
    throw new CommandError(
      "credentials.nowhere",
      "there is no HOME to keep a token in",
      "give it in SVC_TOKEN instead",
    );
  }
  const { [serverKey(server)]: _old, ...others } = await readTokens(file);
  await writeTokens(file, token === undefined ? others : { ...others, [serverKey(server)]: token });
  return file;
}

async function writeTokens(file: string, servers: Tokens): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, `${JSON.stringify({ schema: 1, servers }, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    await rename(temporary, file);
  } finally {
    await rm(temporary, { force: true });
  }
}

/** The same key for every spelling of a service's address. */
function serverKey(server: string): string {
  return URL.canParse(server) ? new URL(server).origin : server;
}

/** Error codes that mean that this user has no tokens: no file, or another user's home, as root's is for a service. */
const absent = ["ENOENT", "ENOTDIR", "EACCES", "EPERM"];

/** None without a file. */
async function readTokens(file: string): Promise<Tokens> {
  let text: string;
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) {
      throw new CommandError("credentials.exposed", `${file} may be read by others`, `chmod 600 ${file}`);
    }
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && absent.includes(String(error.code))) return {};
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
