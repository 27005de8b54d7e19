import { InvalidArgumentError, type Command } from "commander";
import type { CommandContext } from "../../cli/context.ts";
import { port, withExamples } from "../../cli/options.ts";
import type { RenderOptions } from "./render.ts";
import type { RoundTripOptions } from "./round-trip.ts";

type Render = Omit<RenderOptions, "env"> & { readonly file?: string };

/**
 * `berth proxy`: the edge proxy in front of a service with authentication. Both commands run on the machine of the
 * proxy.
 */
export function addProxyCommands(program: Command, { env, write, note, exit }: CommandContext): void {
  const proxy = program.command("proxy").description("the HTTPS proxy in front of the service");
  const render = proxy
    .command("render")
    .description("write a Caddyfile: HTTPS, a password for people, tokens for programs")
    .option("--file <path>", "replace this file; absent: standard output")
    .option("--dns <provider>", "prove a public name by DNS-01 with this Caddy provider and its arguments")
    .option("--http-port <port>", "port of the redirect to HTTPS", port, 80)
    .option("--https-port <port>", "port of HTTPS", port, 443)
    .option("--engine-pages-port <port>", "port of HTTPS for the engines' own pages of SVC_ENGINE_PAGES", port)
    .option("--caddy-admin <address>", "address of Caddy's administration, or off", addressOrOff)
    .action(async ({ file, ...options }: Render) => {
      if (options.httpPort === options.httpsPort) render.error("error: --http-port and --https-port are the same");
      if ([options.httpPort, options.httpsPort].includes(options.enginePagesPort ?? 0))
        render.error("error: --engine-pages-port is the port of another site");
      const { renderProxy, writeProxyFile } = await import("./render.ts");
      const { text, notes } = await renderProxy({ env, ...options });
      for (const line of notes) note(`${line}\n`);
      if (file === undefined) write(text);
      else {
        const outcome = await writeProxyFile(file, text);
        if (outcome === "kept") note(`${file} is as it should be\n`);
        else note(`wrote ${file}; now: caddy reload --config ${file}\n`);
        if (outcome === "new")
          note(`only its owner and group may read it: where Caddy runs as caddy, chgrp caddy ${file}\n`);
      }
    });
  withExamples(
    render,
    ["SVC_ADMIN_USER=ada SVC_ADMIN_PASSWORD=… berth proxy render --file /etc/caddy/Caddyfile", "the first time"],
    ["berth proxy render", "again, with the password's hash that is kept"],
    ["berth proxy render --engine-pages-port 3443", "engines' own pages at a port of their own"],
    ["berth proxy render --dns 'cloudflare {env.CF_API_TOKEN}'", "where port 80 cannot be opened"],
  );
  const check = proxy
    .command("check")
    .description("send requests through the proxy as strangers, people and programs, and report failures")
    .argument("[url]", "its address; absent: https://SVC_HOSTNAME")
    .option("--address <host:port>", "connect to this address rather than to the name's own")
    .option("--http-port <port>", "port of the redirect to HTTPS", port, 80)
    .option("--root <file>", "trust this root certificate")
    .option("--save-root <file>", "write the root certificate of Caddy's own authority, for clients to import")
    .option("--caddy-admin <address>", "address of Caddy's administration", "127.0.0.1:2019")
    .action(async (url: string | undefined, options: RoundTripOptions) => {
      const { proxyFindings } = await import("./round-trip.ts");
      let hasFailed = false;
      for await (const { outcome, what, detail } of proxyFindings(env, url, options)) {
        hasFailed ||= outcome === "failed";
        write(`${outcome.padEnd(7)}  ${what}: ${detail}\n`);
      }
      if (hasFailed) exit(1);
    });
  withExamples(
    check,
    ["SVC_ADMIN_PASSWORD=… berth proxy check", "everything, the log-in too"],
    ["berth proxy check --save-root berth-root.crt", "and keep the root certificate for clients"],
  );
}

function addressOrOff(text: string): string {
  if (text === "off" || /^[A-Za-z0-9.[\]:-]+:\d{1,5}$/.test(text)) return text;
  throw new InvalidArgumentError("It must be host:port, or off.");
}
