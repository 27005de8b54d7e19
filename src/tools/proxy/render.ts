import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { adminPasswordSchema, adminUserSchema, type AdminRecord } from "../../api/admin.ts";
import type { Config } from "../../api/config.ts";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { actAs } from "../../program/owner.ts";
import { readSettings, type Settings } from "../../program/settings.ts";
import { caddyfile, isPrivateName } from "./caddyfile.ts";

export interface RenderOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly dns?: string | undefined;
  readonly httpPort: number;
  readonly httpsPort: number;
  /** The port of HTTPS that leads to engines' own pages; absent: none does. */
  readonly enginePagesPort?: number | undefined;
  readonly caddyAdmin?: string | undefined;
}

/**
 * `berth proxy render`: the text, and notes for the person. Keeps a bcrypt hash of SVC_ADMIN_PASSWORD in the state
 * directory, and does not need the password afterwards. Throws CommandError.
 */
export async function renderProxy(options: RenderOptions): Promise<{ text: string; notes: string[] }> {
  // Before the change of user, who may have no right to read this program.
  await import("../../store/open-admin.ts");
  // The Caddyfile is written as root, the hash in the state directory as the service's user.
  using stack = new DisposableStack();
  const settings = await readSettings(options.env, { takeOwner: async (owner) => void stack.use(await actAs(owner)) });
  const { config } = settings;
  const { hostname, tlsEmail } = config;
  checkNames(config, options.dns);
  const notes: string[] = [];
  if (options.dns !== undefined)
    notes.push(`this needs a Caddy with the module dns.providers.${options.dns.split(" ", 1)[0] ?? ""}`);
  const { enginePagesPort } = options;
  if (enginePagesPort !== undefined && config.enginePages.length === 0)
    throw invalid("SVC_ENGINE_PAGES names no slot: --engine-pages-port leads to nothing");
  if (enginePagesPort === undefined && config.enginePages.length > 0)
    notes.push("SVC_ENGINE_PAGES names slots: --engine-pages-port PORT leads to their engines' pages");
  const admin = await adminOf(settings, notes);
  if (!config.authEnabled) notes.push("authentication is off here: set SVC_AUTH_ENABLED=1 and restart the service");
  const text = caddyfile({
    hostname,
    admin,
    apiPort: config.port,
    chatPort: config.chatPort,
    tlsEmail,
    dns: options.dns,
    httpPort: options.httpPort,
    httpsPort: options.httpsPort,
    enginePages:
      enginePagesPort === undefined ? undefined : { port: config.enginePagesPort, httpsPort: enginePagesPort },
    caddyAdmin: options.caddyAdmin,
  });
  return { text, notes };
}

/** Throws CommandError where these names and addresses cannot stand in the proxy's configuration. */
export function checkNames({ hostname, tlsEmail }: Pick<Config, "hostname" | "tlsEmail">, dns?: string): void {
  if (!/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/i.test(hostname)) throw invalid("SVC_HOSTNAME must be a host name");
  if (isPrivateName(hostname)) {
    if (dns !== undefined)
      throw invalid(`${hostname} is no public name: --dns has no use`, "leave it out, or set SVC_HOSTNAME");
  } else if (tlsEmail === undefined || !/^[^\s@{}"`]+@[^\s@{}"`]+\.[^\s@{}"`]+$/.test(tlsEmail)) {
    throw invalid(`SVC_TLS_EMAIL must be an address that is read: the authority writes to it about ${hostname}`);
  }
  if (dns !== undefined && !/^[a-z0-9_]+( [^\s{}"`]+| \{env\.[A-Za-z0-9_]+\})*$/.test(dns)) {
    throw invalid("--dns must be a Caddy DNS provider and its arguments", "e.g. --dns 'cloudflare {env.CF_API_TOKEN}'");
  }
}

/** The administrator that is given. Throws CommandError where the name or the password cannot be used. */
export function checkAdmin({ adminUser, adminPassword }: Pick<Config, "adminUser" | "adminPassword">): {
  user: string;
  password: string;
} {
  if (adminUser === undefined || adminPassword === undefined)
    throw invalid(
      `${adminUser === undefined ? "SVC_ADMIN_USER" : "SVC_ADMIN_PASSWORD"} is not set`,
      "set it in the environment of this one command; only a hash is kept",
    );
  const user = adminUserSchema.safeParse(adminUser);
  if (!user.success) throw invalid(`SVC_ADMIN_USER must be ${user.error.issues[0]?.message ?? "a name"}`);
  const password = adminPasswordSchema.safeParse(adminPassword);
  if (!password.success) throw invalid(`SVC_ADMIN_PASSWORD must have ${password.error.issues[0]?.message ?? "text"}`);
  return { user: user.data, password: password.data };
}

/**
 * Replaces the file, with its owner and mode; a new file is for its owner and group. Resolves with the outcome: `kept`
 * for an unchanged file. Rejects with the file system's error.
 */
export async function writeProxyFile(path: string, text: string): Promise<"kept" | "replaced" | "new"> {
  // A link is replaced and never followed: where another user may write the directory, it could lead to a file of
  // root's.
  const known = await openPlain(path);
  if (known === undefined) {
    await writeFileAtomic(path, text, { fsync: true, mode: 0o640 });
    return "new";
  }
  await using file = known;
  if ((await file.readFile("utf8")) === text) return "kept";
  // Debian's Caddy runs as a user of its own: a file that it could read must stay readable.
  await writeFileAtomic(path, text, { fsync: true, mode: 0o640, like: await file.stat() });
  return "replaced";
}

/** Undefined where there is no plain file. */
async function openPlain(path: string): Promise<FileHandle | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => undefined);
  if (file === undefined || (await file.stat()).isFile()) return file;
  await file.close();
  return undefined;
}

async function adminOf({ config, origins }: Settings, notes: string[]): Promise<AdminRecord> {
  const { openAdmin } = await import("../../store/open-admin.ts");
  const store = openAdmin(config);
  const { adminUser, adminPassword } = config;
  if (adminPassword === undefined) {
    const known = await store.read();
    if (known !== undefined && (adminUser === undefined || adminUser === known.user)) return known;
    throw invalid(
      known === undefined ? "there is no administrator yet" : "SVC_ADMIN_USER is another than before",
      known === undefined
        ? "set SVC_ADMIN_USER and SVC_ADMIN_PASSWORD for this once; only a hash is kept"
        : "set SVC_ADMIN_PASSWORD too, for this once",
    );
  }
  const { user, password } = checkAdmin(config);
  if (origins["adminPassword"] === "file") {
    notes.push("the hash of the password is kept now: remove admin_password from berth.toml");
  }
  return await store.keep(user, password);
}

function invalid(
  message: string,
  next = "set it in the environment or in berth.toml, and run the same command again",
): CommandError {
  return new CommandError("config.invalid", message, next);
}
