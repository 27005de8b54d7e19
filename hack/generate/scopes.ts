import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { loadConfig } from "../../src/api/config.ts";
import { isGranted, scopeClasses, tokenScopes, type ScopeClass } from "../../src/api/scopes.ts";
import type { GuardedRoute } from "../../src/gateway/auth/hook.ts";
import { runGateway } from "../../src/gateway/main.ts";

const begin = "<!-- scopes: written by hack/generate.ts from the routes themselves -->";
const end = "<!-- /scopes -->";

/** `docs/security.md` with its table of routes as the gateway has them now. Throws when the marks are missing. */
export async function withScopes(text: string): Promise<string> {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error("docs/security.md has lost the marks of its table of routes");
  return `${text.slice(0, from)}${begin}\n\n${scopeTable(await routesOfGateway())}\n\n${text.slice(to)}`;
}

/** One line per class, method and scope, the open ones first. */
function scopeTable(routes: readonly GuardedRoute[]): string {
  const callers = ["nobody", ...tokenScopes.toReversed(), "proxy"] as const;
  const lines = scopeClasses.flatMap((scope) =>
    byPath(routes.filter((route) => route.scope === scope)).map(([path, methods]) => {
      const cells = callers.map((caller) => (mayCall(caller, scope) ? "yes" : ""));
      return `| ${[`\`${path}\``, methods.join(" "), scope, ...cells].join(" | ")} |`;
    }),
  );
  const head = [
    "route",
    "methods",
    "class",
    ...callers.map((caller) => (caller === "proxy" ? "the proxy's user" : caller)),
  ];
  return [`| ${head.join(" | ")} |`, `|${" --- |".repeat(head.length)}`, ...lines].join("\n");
}

function mayCall(caller: "nobody" | "proxy" | (typeof tokenScopes)[number], scope: ScopeClass): boolean {
  if (caller === "nobody") return scope === "public";
  return isGranted(caller === "proxy" ? "admin" : caller, scope);
}

function byPath(routes: readonly GuardedRoute[]): [path: string, methods: string[]][] {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of routes) {
    // A right to GET includes HEAD.
    if (method === "HEAD") continue;
    methods.set(path, (methods.get(path) ?? new Set()).add(method));
  }
  return [...methods]
    .map(([path, set]): [string, string[]] => [path, [...set].toSorted()])
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}

async function routesOfGateway(): Promise<readonly GuardedRoute[]> {
  const directory = await mkdtemp(join(tmpdir(), "berth-routes-"));
  try {
    const env = { SVC_STATE_DIR: directory, SVC_CONFIG_DIR: directory, SVC_PORT: "0", SVC_HOST: "127.0.0.1" };
    const places = { isRoot: false, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined };
    const { config } = loadConfig(env, {}, places);
    if (config === undefined) throw new Error("the configuration of an empty directory is invalid");
    const gateway = await runGateway(config, { log: pino({ enabled: false }), version: "0" });
    await gateway.close({ drainSeconds: 0 });
    return gateway.routes;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
