import type { Config } from "../../api/config.ts";
import { probePaths, publicPaths } from "../../api/scopes.ts";
import { AddressSet } from "./addresses.ts";

/** One line of the start-up log. */
export interface ReachLine {
  readonly level: "info" | "warn";
  readonly text: string;
}

const loopback = new AddressSet(["127.0.0.0/8", "::1"]);

/** Whether only this machine reaches the address. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || loopback.has(host);
}

/** Who can reach what, said at the start: a person who reads it must not be surprised later. */
export function reachLines(
  config: Pick<Config, "host" | "authEnabled" | "trustedProxies">,
  port: number,
  tokenCount: number,
): ReachLine[] {
  const address = config.host.includes(":") ? `[${config.host}]:${port}` : `${config.host}:${port}`;
  const isLocal = isLoopback(config.host);
  if (!config.authEnabled) {
    return [
      isLocal
        ? { level: "info", text: `authentication is off; ${address} is reachable from this machine only` }
        : {
            level: "warn",
            text: `authentication is off and ${address} is reachable from the network: everyone there can use it; SVC_HOST=127.0.0.1 keeps it to this machine`,
          },
    ];
  }
  const lines: ReachLine[] = [
    isLocal
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
  if (tokenCount === 0) {
    lines.push({ level: "warn", text: "there is no token yet: berth token create --label NAME --scope admin" });
  }
  return lines;
}
