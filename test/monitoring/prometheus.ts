import { spawn } from "node:child_process";
import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { freePort } from "../support/free-port.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const monitoring = fileURLToPath(new URL("../../manifests/monitoring", import.meta.url));
const rangeSchema = z.looseObject({
  data: z.looseObject({
    result: z.array(
      z.looseObject({
        metric: z.record(z.string(), z.string()),
        values: z.array(z.tuple([z.number(), z.string().transform(Number)])),
      }),
    ),
  }),
});
const labelsSchema = z.looseObject({ data: z.array(z.string()) });
const answerSchema = z.looseObject({ data: z.looseObject({ result: z.array(z.unknown()) }) });

export interface RunningPrometheus extends AsyncDisposable {
  readonly url: string;
  /** The series of an answer. */
  query(expr: string): Promise<readonly unknown[]>;
  /** The values of Grafana's `label_values(metric, label)`. */
  labelValues(metric: string, label: string): Promise<readonly string[]>;
  /** The series of an answer over the last `seconds`, a point every two seconds. */
  queryRange(expr: string, seconds: number): Promise<z.infer<typeof rangeSchema>["data"]["result"]>;
}

/** A copy of `manifests/monitoring` that asks at these ports, and each second. */
export async function configFor(
  directory: string,
  ports: { readonly gateway: string; readonly operator: string },
  name = "prometheus.yaml",
): Promise<void> {
  await cp(monitoring, directory, { recursive: true });
  const file = join(directory, name);
  const text = await readFile(file, "utf8");
  await writeFile(
    file,
    text
      .replace("127.0.0.1:8080", `127.0.0.1:${ports.gateway}`)
      .replace("127.0.0.1:8079", `127.0.0.1:${ports.operator}`)
      .replaceAll("15s", "1s"),
  );
}

/** Debian's Prometheus over the pages of a running Berth, with the rules that come with it. */
export async function startPrometheus(
  berth: { url: string; operatorUrl: string },
  config = "prometheus.yaml",
): Promise<RunningPrometheus> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  await configFor(path, { gateway: new URL(berth.url).port, operator: new URL(berth.operatorUrl).port }, config);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(
    "prometheus",
    [
      `--config.file=${join(path, config)}`,
      `--storage.tsdb.path=${join(path, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--enable-feature=exemplar-storage",
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4000)));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  stack.defer(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  await until("Prometheus is ready", async () => {
    if (child.exitCode !== null) throw new Error(log);
    return (await fetch(`${url}/-/ready`)).ok;
  });
  const owned = stack.move();
  const ask = async (path: string, query: Record<string, string>): Promise<unknown> => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(query).toString()}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`${JSON.stringify(query)}: ${text}`);
    return JSON.parse(text);
  };
  return {
    url,
    query: async (expr) => answerSchema.parse(await ask("query", { query: expr })).data.result,
    labelValues: async (metric, label) =>
      labelsSchema.parse(await ask(`label/${label}/values`, { "match[]": metric })).data,
    async queryRange(expr, seconds) {
      const end = Date.now() / 1000;
      const range = { start: String(end - seconds), end: String(end), step: "2" };
      return rangeSchema.parse(await ask("query_range", { query: expr, ...range })).data.result;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
