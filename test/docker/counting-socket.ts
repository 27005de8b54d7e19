import { createServer, request } from "node:http";
import { rm } from "node:fs/promises";

/** A socket before a daemon's, which notes what is asked. */
export interface CountingSocket extends AsyncDisposable {
  readonly path: string;
  /** `METHOD /path` without version and query, in order. */
  readonly asked: string[];
}

export async function countingSocket(daemon: string, path: string): Promise<CountingSocket> {
  const asked: string[] = [];
  const server = createServer((incoming, response) => {
    const { method = "", url = "", headers } = incoming;
    asked.push(`${method} ${url.replace(/\?.*/, "").replace(/^\/v[\d.]+/, "")}`);
    const onward = request({ socketPath: daemon, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    onward.once("error", () => response.destroy());
    response.once("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(path, { force: true });
    },
  };
}
