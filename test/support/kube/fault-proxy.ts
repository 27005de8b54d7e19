import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, request } from "node:https";
import { join } from "node:path";
import { listen } from "../listen.ts";
import { kubeconfigText, type ApiServer } from "./control-plane.ts";

/** The faults between a client and the API server; changed at any time. */
export interface Faults {
  /** The status that a request is answered with instead; undefined: it passes. */
  refuse?: ((method: string, path: string) => number | undefined) | undefined;
  /** Replaces the next lines of a watch. */
  lines?: ((lines: readonly string[]) => readonly string[]) | undefined;
}

export interface FaultProxy extends AsyncDisposable {
  readonly faults: Faults;
  readonly kubeconfig: string;
  /** Requests that came, as `GET /path`. */
  readonly seen: readonly string[];
  /** Breaks every watch that is open. */
  dropWatches(): void;
}

let proxies = 0;

/** An HTTPS server before the API server, with its certificate from the same authority. `token`: of its clients. */
export async function startFaultProxy(plane: ApiServer, namespace: string, token = plane.token): Promise<FaultProxy> {
  proxies += 1;
  const { cert, key } = await plane.issue(`proxy-${namespace}-${proxies}`, "/CN=proxy", "serverAuth", ["IP:127.0.0.1"]);
  const ca = readFileSync(plane.caFile);
  const faults: Faults = {};
  const seen: string[] = [];
  const watches = new Set<ServerResponse>();
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (asked, answer) => {
    const { method = "GET", url = "/", headers } = asked;
    seen.push(`${method} ${url}`);
    const status = faults.refuse?.(method, url);
    if (status !== undefined) {
      asked.resume();
      answer.writeHead(status, { "content-type": "application/json" });
      answer.end(JSON.stringify({ kind: "Status", code: status, reason: "Fault", message: `fault ${status}` }));
      return;
    }
    const sent = request(`${plane.url}${url}`, { method, headers, ca, agent: false }, (found) => {
      answer.writeHead(found.statusCode ?? 500, found.headers);
      if (url.includes("watch=true")) passWatch(found, answer);
      else found.pipe(answer);
    });
    sent.on("error", () => answer.destroy());
    answer.on("close", () => sent.destroy());
    asked.pipe(sent);
  });
  const passWatch = (found: IncomingMessage, answer: ServerResponse): void => {
    watches.add(answer);
    answer.on("close", () => watches.delete(answer));
    answer.flushHeaders();
    let rest = "";
    found.on("data", (part: Buffer) => {
      const lines = (rest + part.toString()).split("\n");
      rest = lines.pop() ?? "";
      for (const line of faults.lines?.(lines) ?? lines) answer.write(`${line}\n`);
    });
    found.on("end", () => answer.end());
    found.on("error", () => answer.destroy());
  };
  // A busy machine may let a connection rest for longer than Node keeps one; an API server keeps it for minutes.
  server.keepAliveTimeout = 0;
  const port = await listen(server);
  const kubeconfig = join(plane.directory, `proxy-${namespace}-${port}.kubeconfig`);
  await writeFile(kubeconfig, kubeconfigText(`https://127.0.0.1:${port}`, plane.caFile, token, namespace));
  return {
    faults,
    kubeconfig,
    seen,
    dropWatches() {
      for (const answer of watches) answer.destroy();
    },
    async [Symbol.asyncDispose]() {
      for (const answer of watches) answer.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
