import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { actAs, become, type Owner } from "../../program/owner.ts";
import { readSettings } from "../../program/settings.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { checkProxy, type Finding } from "./check.ts";
import type { EdgeTarget } from "./edge-client.ts";
import { caddyRoot } from "./root.ts";

export interface RoundTripOptions {
  readonly address?: string;
  readonly httpPort: number;
  readonly root?: string;
  readonly saveRoot?: string;
  readonly caddyAdmin: string;
}

/** `berth proxy check`: finds the trusted root and the credentials, then sends the requests. Throws CommandError. */
export async function* proxyFindings(
  env: NodeJS.ProcessEnv,
  url: string | undefined,
  options: RoundTripOptions,
): AsyncGenerator<Finding> {
  let owner: Owner | undefined;
  using stack = new DisposableStack();
  const { config } = await readSettings(env, {
    takeOwner: async (found) => {
      owner = found;
      stack.use(await actAs(found));
    },
  });
  // The root certificate is written as the current user, tokens as the service's user.
  stack.dispose();
  const target = await targetOf(url ?? `https://${config.hostname}`, options);
  if (owner !== undefined) await become(owner, env);
  const { openAdmin } = await import("../../store/open-admin.ts");
  const user =
    config.adminUser ??
    (
      await openAdmin(config)
        .read()
        .catch(() => undefined)
    )?.user;
  const { openStore } = await import("../../store/open.ts");
  await using tokens = await openStore(config).tokens();
  const made = await tokens.create({ label: "proxy check", scope: "read-only" }).catch(() => undefined);
  const own = env["SVC_TOKEN"] || undefined;
  const plain = new URL(`http://${target.url.hostname}`);
  try {
    await checkName(target);
    yield* checkProxy({
      target,
      plain: {
        url: plain,
        address: { host: target.address?.host ?? plain.hostname, port: options.httpPort },
        root: undefined,
        isVerifying: true,
      },
      user,
      password: config.adminPassword,
      token:
        made !== undefined
          ? { text: made.token, label: made.label }
          : own === undefined
            ? undefined
            : { text: own, label: "the owner of SVC_TOKEN" },
      revoke: made === undefined ? undefined : async () => void (await tokens.revoke(made.id)),
    });
  } finally {
    if (made !== undefined) await tokens.revoke(made.id);
  }
}

/** Every request would fail for this one reason. Throws CommandError. */
async function checkName({ url, address }: EdgeTarget): Promise<void> {
  if (address !== undefined) return;
  try {
    await lookup(url.hostname.replace(/^\[|\]$/g, ""));
  } catch {
    throw new CommandError(
      "unreachable",
      `this machine knows no address of ${url.hostname}`,
      `on the proxy's machine: --address 127.0.0.1:${url.port || "443"}; for clients a record in DNS, mDNS, or a line in /etc/hosts`,
    );
  }
}

async function targetOf(url: string, options: RoundTripOptions): Promise<EdgeTarget> {
  const parsed = URL.parse(url);
  if (parsed?.protocol !== "https:")
    throw new CommandError("address.invalid", `${url} is no https:// address`, "it looks like https://svc.local");
  const root = options.root === undefined ? await caddyRoot(options.caddyAdmin) : await read(options.root);
  if (options.saveRoot !== undefined) {
    if (root === undefined) {
      throw new CommandError(
        "root.not_found",
        `no Caddy with an authority of its own answers at ${options.caddyAdmin}`,
        "run this on the proxy's machine, or name the place with --caddy-admin",
      );
    }
    await writeFileAtomic(options.saveRoot, root, { fsync: false });
  }
  const address = options.address === undefined ? undefined : splitAddress(options.address);
  return { url: parsed, address, root, isVerifying: true };
}

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new CommandError(
      "root.not_found",
      errorMessage(error),
      "`berth proxy check --save-root FILE` on the proxy's machine writes one",
    );
  }
}

/** `host:port` in two parts; an IPv6 address is in brackets. Throws CommandError. */
function splitAddress(text: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:.]+)\]|([^:\s]+)):(\d{1,5})$/i.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > 65_535)
    throw new CommandError("address.invalid", `${text} is no host:port`, "it looks like 127.0.0.1:443");
  return { host, port: Number(port) };
}
