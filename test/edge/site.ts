import { createServer, type IncomingHttpHeaders } from "node:http";
import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { berthProcess } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { freePort } from "../support/free-port.ts";
import { listen } from "../support/listen.ts";
import { scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import { startGateway, type Answer, type TestGateway } from "../gateway/auth/gateway.ts";
import type { SlotSketch } from "../support/gateway.ts";
import { startServer } from "./server.ts";

export const user = "ada";
export const password = "correct horse battery";
export const basic = { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}` };

export interface Edge extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly engine: ScriptedEngine;
  /** What the chat page's server was asked. */
  readonly chatSeen: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  readonly httpPort: number;
  readonly httpsPort: number;
  readonly caddyAdmin: string;
  readonly directory: string;
  /** Of the command line on the proxy's machine. */
  readonly env: NodeJS.ProcessEnv;
  /** PEM of the proxy's own root certificate. */
  readonly root: string;
  /** What the proxy has logged. */
  readonly proxyLog: () => string;
  ask(path: string, headers?: Record<string, string>, sent?: { method?: string; body?: string }): Promise<Answer>;
}

/** A gateway with authentication behind a real Caddy that runs what `berth proxy render` writes, all on loopback. */
export async function startEdge(
  more: {
    readonly env?: Readonly<Record<string, string>>;
    readonly slots?: Readonly<Record<string, SlotSketch>>;
    /** Further words of `berth proxy render`. */
    readonly args?: readonly string[];
    /** Of the dashboard and the chat page as they are built; absent: none are served. */
    readonly pages?: string;
  } = {},
): Promise<Edge> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const engine = stack.use(await scriptedEngine());
  const gateway = stack.use(
    await startGateway(
      { SVC_AUTH_ENABLED: "1", ...more.env },
      { primary: { port: engine.port }, ...more.slots },
      more.pages === undefined ? {} : { pages: more.pages },
    ),
  );
  const chatSeen: Edge["chatSeen"] = [];
  const chat = createServer((incoming, response) => {
    chatSeen.push({ path: incoming.url ?? "", headers: incoming.headers });
    response.end("the chat page");
  });
  const chatPort = await listen(chat);
  stack.defer(() => void chat.close());
  const [httpPort, httpsPort, adminPort] = [await freePort(), await freePort(), await freePort()];
  const caddyAdmin = `127.0.0.1:${adminPort}`;
  const env = {
    SVC_STATE_DIR: gateway.stateDir,
    SVC_CONFIG_DIR: gateway.stateDir,
    SVC_AUTH_ENABLED: "1",
    SVC_PORT: String(gateway.port),
    SVC_CHAT_PORT: String(chatPort),
    SVC_ADMIN_USER: user,
    ...more.env,
  };
  const file = join(directory.path, "Caddyfile");
  const ports = [
    "--http-port",
    String(httpPort),
    "--https-port",
    String(httpsPort),
    "--caddy-admin",
    caddyAdmin,
  ].concat(more.args ?? []);
  const rendered = await berthProcess(["proxy", "render", ...ports], { ...env, SVC_ADMIN_PASSWORD: password });
  if (rendered.code !== 0) throw new Error(rendered.stderr);
  await writeFile(file, rendered.stdout);
  const rootFile = join(directory.path, "data/caddy/pki/authorities/local/root.crt");
  const caddy = stack.use(
    await startServer(
      "caddy",
      ["run", "--config", file, "--adapter", "caddyfile"],
      {
        HOME: directory.path,
        XDG_DATA_HOME: join(directory.path, "data"),
        XDG_CONFIG_HOME: join(directory.path, "config"),
      },
      async () =>
        (await askSecurely(httpsPort, await readFile(rootFile, "utf8"), "/api/status", {}, {})).status === 200,
    ),
  );
  const root = await readFile(rootFile, "utf8");
  const owned = stack.move();
  return {
    gateway,
    engine,
    chatSeen,
    httpPort,
    httpsPort,
    caddyAdmin,
    directory: directory.path,
    env,
    root,
    proxyLog: caddy.log,
    ask: (path, headers = {}, sent = {}) => askSecurely(httpsPort, root, path, headers, sent),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Verifies the certificate against this root alone, as a client does that has imported it. */
export async function askSecurely(
  port: number,
  root: string | undefined,
  path: string,
  headers: Record<string, string>,
  { method = "GET", body }: { method?: string; body?: string },
  onBytes: (text: string) => void = () => undefined,
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: "127.0.0.1",
        port,
        method,
        path,
        headers: { host: `svc.local:${port}`, ...headers },
        servername: "svc.local",
        agent: false,
        ...(root === undefined ? {} : { ca: root }),
      },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (bytes: string) => {
          text += bytes;
          onBytes(bytes);
        });
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
        );
        response.once("error", reject);
      },
    );
    outgoing.once("error", reject);
    outgoing.end(body);
  });
}
