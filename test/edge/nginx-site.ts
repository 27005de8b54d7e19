import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../support/free-port.ts";
import { startServer } from "./server.ts";
import { askSecurely, user, type Edge } from "./site.ts";

export interface RunningNginx extends AsyncDisposable {
  readonly httpPort: number;
  readonly httpsPort: number;
  /** Of engines' own pages, where one of the files is theirs. */
  readonly enginePagesPort: number;
}

/** These files with their blanks filled in, in a real nginx, with the certificate that the edge's Caddy made. */
export async function startNginx(edge: Edge, files: readonly string[]): Promise<RunningNginx> {
  const [httpPort, httpsPort, enginePagesPort] = [await freePort(), await freePort(), await freePort()];
  const certificate = join(edge.directory, "data/caddy/certificates/local/svc.local/svc.local");
  const admin = await readFile(join(edge.gateway.stateDir, "auth/admin.json"), "utf8");
  const hash = /"bcrypt":"([^"]+)"/.exec(admin)?.[1] ?? "";
  const directory = join(edge.directory, "nginx");
  await mkdir(directory);
  await writeFile(join(directory, "users"), `${user}:${hash}\n`);
  const texts = await Promise.all(files.map(async (file) => await readFile(file, "utf8")));
  const filled = fill(texts.join("\n").replaceAll(/^ *listen \[::\].*\n/gm, ""), {
    "listen 80;": `listen 127.0.0.1:${httpPort};`,
    "listen 443 ": `listen 127.0.0.1:${httpsPort} `,
    "listen 3443 ": `listen 127.0.0.1:${enginePagesPort} `,
    ":3443": `:${enginePagesPort}`,
    "127.0.0.1:8080": `127.0.0.1:${edge.gateway.port}`,
    "127.0.0.1:3001": `127.0.0.1:${edge.env["SVC_CHAT_PORT"]}`,
    "127.0.0.1:3002": `127.0.0.1:${edge.env["SVC_ENGINE_PAGES_PORT"] ?? "3002"}`,
    "/etc/nginx/berth.crt": `${certificate}.crt`,
    "/etc/nginx/berth.key": `${certificate}.key`,
    "/etc/nginx/berth.users": join(directory, "users"),
  });
  const server = await runNginx(directory, filled, async () => {
    return (await askSecurely(httpsPort, edge.root, "/api/status", {}, {})).status === 200;
  });
  return {
    httpPort,
    httpsPort,
    enginePagesPort,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Starts a real nginx whose files are all in `directory`. `content`: the text within its `http {}`. */
export async function runNginx(
  directory: string,
  content: string,
  isReady: () => Promise<boolean>,
): Promise<AsyncDisposable> {
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${join(directory, name)};`)
    .join("\n");
  const config = join(directory, "nginx.conf");
  await writeFile(
    config,
    `daemon off;\nworker_processes 1;\npid ${join(directory, "pid")};\nerror_log stderr;\n` +
      `${process.getuid?.() === 0 ? "user root;\n" : ""}events {}\nhttp {\naccess_log off;\n${paths}\n${content}}\n`,
  );
  return await startServer("nginx", ["-e", "stderr", "-p", directory, "-c", config], {}, isReady);
}

/** All at once: a port that was filled in may begin as a blank does, such as 30017 for `:3001`. */
function fill(text: string, blanks: Readonly<Record<string, string>>): string {
  const found = new RegExp(
    Object.keys(blanks)
      .map((blank) => RegExp.escape(blank))
      .join("|"),
    "g",
  );
  return text.replaceAll(found, (blank) => blanks[blank] ?? blank);
}
