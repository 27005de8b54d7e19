import { spawn } from "node:child_process";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import Dockerode from "dockerode";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { listen } from "../support/listen.ts";

/** Debian's docker-registry on loopback, behind a proxy that can hold back bytes or ask for a password. */
export interface Registry extends AsyncDisposable {
  /** `127.0.0.1:port`, which daemons take for insecure and so need no certificate for. */
  readonly address: string;
  /** Layers wait until `open` is called; with `after`, each once that many bytes of it have gone through. */
  shut(after?: number): void;
  open(): void;
  /** From now on only with these. */
  demand(username: string, password: string): void;
  /** Copies an image of that daemon here, under the same name and another host, and removes it there. */
  take(socketPath: string, image: string): Promise<string>;
}

export async function startRegistry(): Promise<Registry> {
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "berth-registry-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const port = await freePort();
  const config = join(directory, "config.yml");
  await writeFile(
    config,
    `version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: ${directory}\nhttp:\n  addr: 127.0.0.1:${port}\n`,
  );
  const child = spawn("docker-registry", ["serve", config], { stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  stack.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await until("the registry answers", async () => (await fetch(`http://127.0.0.1:${port}/v2/`)).ok);

  let door = Promise.resolve();
  let open = (): void => undefined;
  let freeBytes = 0;
  let credentials: string | undefined;
  /** Relays the first `freeBytes` at once, and the rest after the hold is released. */
  async function* held(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let passed = 0;
    for await (const chunk of chunks) {
      if (passed >= freeBytes) await door;
      passed += chunk.length;
      yield chunk;
    }
  }
  const pass = (incoming: IncomingMessage, response: ServerResponse, isLayer: boolean): void => {
    const { method, url, headers } = incoming;
    const upstream = request({ host: "127.0.0.1", port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      // Whoever asks may leave.
      if (isLayer) pipeline(answer, held, response).catch(() => response.destroy());
      else answer.pipe(response);
    });
    upstream.once("error", () => response.destroy());
    incoming.pipe(upstream);
  };
  const server = createServer((incoming, response) => {
    const { url = "", method, headers } = incoming;
    if (credentials !== undefined && headers.authorization !== credentials) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="test"', "content-type": "application/json" });
      response.end('{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}');
    } else pass(incoming, response, method === "GET" && url.includes("/blobs/"));
  });
  const front = await listen(server);
  stack.defer(async () => {
    open();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = `127.0.0.1:${front}`;
  const owned = stack.move();
  return {
    address,
    shut(after = 0) {
      freeBytes = after;
      const { promise, resolve } = Promise.withResolvers<void>();
      door = promise;
      open = resolve;
    },
    open: () => open(),
    demand(username, password) {
      credentials = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
    },
    async take(socketPath, image) {
      const api = new Dockerode({ socketPath });
      const [repo = "", tag = ""] = image.split(":");
      await api.getImage(image).tag({ repo: `${address}/${repo}`, tag });
      const stored = api.getImage(`${address}/${image}`);
      const stream = await stored.push({ authconfig: { username: "x", password: "x" } });
      let said = "";
      for await (const chunk of stream) said += String(chunk);
      if (/"error"/.test(said)) throw new Error(`the push failed: ${said.slice(-300)}`);
      await stored.remove({ force: true });
      await api.getImage(image).remove({ force: true });
      return `${address}/${image}`;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
