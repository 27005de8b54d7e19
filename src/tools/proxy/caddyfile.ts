import { isIP } from "node:net";
import type { AdminRecord } from "../../api/admin.ts";
import { publicPaths } from "../../api/scopes.ts";

export interface EdgeSettings {
  readonly hostname: string;
  readonly admin: Pick<AdminRecord, "user" | "bcrypt">;
  /** The ports of the API and the chat page, on loopback. */
  readonly apiPort: number;
  readonly chatPort: number;
  /** Contact for the certificate authority; needed for a public name. */
  readonly tlsEmail: string | undefined;
  /** A Caddy DNS provider with its arguments, e.g. `cloudflare {env.CF_API_TOKEN}`: DNS-01 instead of HTTP-01. */
  readonly dns: string | undefined;
  readonly httpPort: number;
  readonly httpsPort: number;
  /** The port of engines' own pages on loopback, and the port of HTTPS that leads to it; absent: none does. */
  readonly enginePages?: { readonly port: number; readonly httpsPort: number } | undefined;
  /** The address of Caddy's administration, which `systemctl reload caddy` needs; absent: Caddy's default. */
  readonly caddyAdmin: string | undefined;
}

/** Names that no public authority certifies: the proxy is its own authority. */
export function isPrivateName(hostname: string): boolean {
  return (
    isIP(hostname) !== 0 || !hostname.includes(".") || /\.(local|localhost|internal|lan|home\.arpa)$/i.test(hostname)
  );
}

/** The proxy's own errors carry the envelope too. Braces would be Caddy's placeholders: they are escaped. */
const ownErrors = [
  [401, "auth.required", "authentication_error", "Log in, or send a token as Authorization: Bearer"],
  [502, "dispatch.upstream_unavailable", "server_error", "The service behind the proxy does not answer"],
] as const;

/**
 * A Caddyfile for Caddy 2.6 and later: TLS, basic auth for people, bearer tokens passed through for programs. The order
 * of its handles keeps `X-Forwarded-Email` trustworthy; test/edge runs it in a real Caddy.
 */
export function caddyfile(edge: EdgeSettings): string {
  const api = `127.0.0.1:${edge.apiPort}`;
  const global = [
    ...(edge.caddyAdmin === undefined ? [] : [`admin ${edge.caddyAdmin}`]),
    ...(edge.httpPort === 80 ? [] : [`http_port ${edge.httpPort}`]),
    ...(edge.httpsPort === 443 ? [] : [`https_port ${edge.httpsPort}`]),
    "# The root certificate is imported by hand where it is wanted; see docs/edge.md.",
    "skip_install_trust",
  ];
  const site = [
    ...tls(edge),
    "",
    "# Only this proxy may say who a user is.",
    "request_header -X-Forwarded-Email",
    "header -Server",
    ...(isPrivateName(edge.hostname) ? [] : ['header Strict-Transport-Security "max-age=31536000"']),
    "",
    "# Programs: the API itself checks their tokens.",
    "@programs path /v1 /v1/* /rerank /models /models/*",
    ...block("handle @programs", passed(api)),
    "# Open to everybody; the API discloses nothing of use to strangers there.",
    `@open path ${publicPaths.filter((path) => path.startsWith("/api")).join(" ")}`,
    ...block("handle @open", passed(api)),
    "# A token needs no password beside it.",
    "@token header_regexp Authorization (?i)^bearer(\\s|$)",
    ...block("handle @token", passed(api)),
    "",
    ...(edge.enginePages === undefined
      ? []
      : [
          "# What an engine's page runs must not share the dashboard's origin: it has a port of its own.",
          `redir /upstream/* https://${edge.hostname}:${edge.enginePages.httpsPort}{uri} 307`,
        ]),
    "# People: the password is checked here and not passed on.",
    "redir /chat /chat/ 308",
    ...block("handle_path /chat/*", ["import people", ...named(`127.0.0.1:${edge.chatPort}`)]),
    ...block("handle", ["import people", ...named(api)]),
    "",
    ...errors(),
  ];
  const people = block("basicauth bcrypt Berth", [`${edge.admin.user} ${edge.admin.bcrypt}`]);
  return [
    "# Written by `berth proxy render`; a change is lost when it is written again.",
    ...block("", global),
    ...block("(people)", people),
    ...block(edge.hostname, site),
    ...enginePages(edge),
    "",
  ].join("\n");
}

/** Engines' own pages: people and tokens as at the main site, and nothing that is open to everybody. */
function enginePages(edge: EdgeSettings): string[] {
  if (edge.enginePages === undefined) return [];
  const pages = `127.0.0.1:${edge.enginePages.port}`;
  return block(`${edge.hostname}:${edge.enginePages.httpsPort}`, [
    ...tls(edge),
    "",
    "request_header -X-Forwarded-Email",
    "header -Server",
    "",
    "@token header_regexp Authorization (?i)^bearer(\\s|$)",
    ...block("handle @token", passed(pages)),
    ...block("handle", ["import people", ...named(pages)]),
    "",
    ...errors(),
  ]);
}

function errors(): string[] {
  return block(
    "handle_errors",
    ownErrors.flatMap(([status, code, type, message]) => {
      const body = JSON.stringify({ error: { code, message, type } });
      return [
        `@is${status} expression {http.error.status_code} == ${status}`,
        ...block(`handle @is${status}`, [
          'header Content-Type "application/json; charset=utf-8"',
          `respond ${quoted(body)} ${status}`,
        ]),
      ];
    }),
  );
}

function tls({ hostname, tlsEmail, dns }: EdgeSettings): string[] {
  if (isPrivateName(hostname))
    return ["# Its own authority: clients import the root certificate once.", "tls internal"];
  const issuer = block(
    "issuer acme",
    dns === undefined
      ? [
          `email ${tlsEmail ?? ""}`,
          "# HTTP-01: port 80 must be reachable from the internet.",
          "disable_tlsalpn_challenge",
        ]
      : [`email ${tlsEmail ?? ""}`, `dns ${dns}`],
  );
  return ["# Renewed when a third of its life is left: 30 days of 90.", ...block("tls", issuer)];
}

/** Passed on unchanged; streams of the API are not buffered. */
function passed(address: string): string[] {
  return block(`reverse_proxy ${address}`, ["flush_interval -1", "transport http {", "\tcompression off", "}"]);
}

/** Passed on in the name of the logged-in user. */
function named(address: string): string[] {
  const [open = "", ...rest] = passed(address);
  return [open, "\theader_up X-Forwarded-Email {http.auth.user.id}", "\theader_up -Authorization", ...rest];
}

function block(head: string, lines: readonly string[]): string[] {
  return [head === "" ? "{" : `${head} {`, ...lines.map((line) => (line === "" ? "" : `\t${line}`)), "}"];
}

function quoted(text: string): string {
  return `"${text.replaceAll("{", "\\{").replaceAll('"', '\\"')}"`;
}
