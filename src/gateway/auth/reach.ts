import type { Config } from "../../api/config.ts";
import { probePaths, publicPaths } from "../../api/scopes.ts";
import { authority, isLoopback } from "../../lib/listen-address.ts";

/** One line of the start-up log. */
export interface ReachLine {
  readonly level: "info" | "warn";
  readonly text: string;
}

export interface TokenCounts {
  readonly all: number;
  /** Tokens created while authentication was off: refused until they are confirmed. */
  readonly unconfirmed: number;
}

/** The lines that a start logs: which clients can reach the API, and with which rights. */
export function reachLines(
  config: Pick<Config, "host" | "authEnabled" | "trustedProxies" | "adminPassword">,
  port: number,
  tokens: TokenCounts,
): ReachLine[] {
  const needless: ReachLine = {
    level: "warn",
    text: "SVC_ADMIN_PASSWORD is set for the service, which does not use it: only berth proxy render reads it, once",
  };
  const lines = config.authEnabled ? guarded(config, port, tokens) : [unguarded(config, port)];
  return config.adminPassword === undefined ? lines : [...lines, needless];
}

type Reached = Pick<Config, "host" | "trustedProxies">;

function unguarded(config: Reached, port: number): ReachLine {
  const address = authority(config.host, port);
  return isLoopback(config.host)
    ? { level: "info", text: `authentication is off; ${address} is reachable from this machine only` }
    : {
        level: "warn",
        text: `authentication is off and ${address} is reachable from the network: everyone there can use it; SVC_HOST=127.0.0.1 keeps it to this machine`,
      };
}

function guarded(config: Reached, port: number, tokens: TokenCounts): ReachLine[] {
  const address = authority(config.host, port);
  const lines: ReachLine[] = [
    isLoopback(config.host)
      ? {
          level: "info",
          text: `authentication is on; ${address} is reachable from this machine only, for others put the edge proxy in front of it (berth proxy render)`,
        }
      : {
          level: "warn",
          text: `authentication is on, but ${address} is reachable from the network and speaks plain HTTP: tokens can be read on their way; without SVC_HOST it listens on 127.0.0.1, behind the edge proxy`,
        },
    {
      level: "info",
      text: `open without credentials: ${[...publicPaths, ...probePaths].join(", ")}`,
    },
    config.trustedProxies.length === 0
      ? { level: "info", text: "no proxy is trusted: tokens are the only way in" }
      : {
          level: "info",
          text: `${config.trustedProxies.join(", ")} may name an admin by X-Forwarded-Email: every program there acts as admin if it wants to (SVC_TRUSTED_PROXIES)`,
        },
  ];
  if (tokens.all === 0) {
    lines.push({ level: "warn", text: "there is no token yet: berth token create --label NAME --scope admin" });
  }
  if (tokens.unconfirmed > 0) {
    const text = `tokens made while authentication was off are refused until somebody confirms them, here ${tokens.unconfirmed}: berth token list --confirm`;
    lines.push({ level: "warn", text });
  }
  return lines;
}
