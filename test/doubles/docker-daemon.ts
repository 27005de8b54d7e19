import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { tempDir } from "../support/temp-dir.ts";

export interface DockerDaemonDouble extends AsyncDisposable {
  readonly path: string;
  /** `METHOD /path` without version and query, in order. */
  readonly asked: string[];
}

/** Answers `METHOD /path`, without version and query; a response that it leaves open stays open. */
export type DaemonAnswer = (asked: string, response: ServerResponse, request: IncomingMessage) => void;

/** A DOUBLE of a Docker daemon on a socket of its own: says what the test has it say, and runs nothing. */
export async function startDockerDaemon(answer: DaemonAnswer): Promise<DockerDaemonDouble> {
  const directory = await tempDir();
  const path = join(directory.path, "docker.sock");
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { method = "", url = "" } = request;
    const what = `${method} ${url.replace(/\?.*/, "").replace(/^\/v[\d.]+/, "")}`;
    asked.push(what);
    answer(what, response, request);
  });
  server.listen(path);
  await once(server, "listening");
  return {
    path,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await directory[Symbol.asyncDispose]();
    },
  };
}

export function say(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
