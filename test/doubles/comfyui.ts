/**
 * A DOUBLE, not ComfyUI: it speaks the wire format of ComfyUI's HTTP API, runs no model, and draws one plain colour
 * that follows from the seed. Nothing about real pictures or times follows from it. `--work-ms N`: how long one prompt
 * runs. GET /double/calls lists the requests, as JSON; after POST /double/never a prompt runs for ever.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { crc32, deflateSync } from "node:zlib";
import { z } from "zod";
import { isRecord } from "../../src/lib/record.ts";
import { json, readBody, runByHand, startServer, type Listening, type ListeningOptions } from "./wire.ts";

/**
 * `node-error`: refuses each graph; `execution-error`: fails while it samples; `never`: runs for ever; `die`: ends while
 * it works; `lose`: forgets a prompt; `garbage`: answers /prompt with no JSON; `garbage-history`, `garbage-image`: likewise
 * there; `few`: makes one image too few.
 */
export type ComfyFault =
  "node-error" | "execution-error" | "never" | "die" | "lose" | "garbage" | "garbage-history" | "garbage-image" | "few";

export interface ComfyDoubleOptions extends ListeningOptions {
  readonly workMs?: number;
  readonly answerMs?: number;
  readonly checkpoints?: readonly string[];
  readonly fault?: ComfyFault | undefined;
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

export interface ComfyDouble extends Listening {
  /** Every request, in order. */
  readonly calls: readonly Call[];
}

const graphSchema = z.record(
  z.string(),
  z.object({ class_type: z.string(), inputs: z.record(z.string(), z.unknown()) }),
);
type Graph = z.infer<typeof graphSchema>;
interface Job {
  readonly id: string;
  readonly number: number;
  readonly graph: Graph;
  timer?: NodeJS.Timeout;
}

const curated = ["sd_xl_turbo_1.0_fp16.safetensors", "v1-5-pruned-emaonly.safetensors"];

/** Listens on `port` (0: any free one) and runs one prompt at a time, as ComfyUI does. */
export async function startComfyDouble(options: ComfyDoubleOptions = {}): Promise<ComfyDouble> {
  const { fault, workMs = 0, answerMs = 0, checkpoints = curated } = options;
  const calls: Call[] = [];
  const pending: Job[] = [];
  const history = new Map<string, unknown>();
  const files = new Map<string, Buffer>();
  let running: Job | undefined;
  let count = 0;
  let isEndless = fault === "never";

  const next = (): void => {
    if (running !== undefined) return;
    running = pending.shift();
    if (running === undefined || isEndless) return;
    const job = running;
    job.timer = setTimeout(() => finish(job), workMs);
  };
  const end = (job: Job, entry: unknown): void => {
    clearTimeout(job.timer);
    history.set(job.id, entry);
    running = undefined;
    next();
  };
  const finish = (job: Job): void => {
    if (fault === "die") return server.die();
    if (fault === "execution-error") return end(job, failedEntry(job));
    const { width, height, batch_size: batch } = inputsOf(job.graph, "EmptyLatentImage");
    const { seed } = inputsOf(job.graph, "KSampler");
    const images = Array.from({ length: Number(batch) - (fault === "few" ? 1 : 0) }, (_, index) => {
      const filename = `berth_${String((count += 1)).padStart(5, "0")}_.png`;
      files.set(
        filename,
        fault === "garbage-image" ? Buffer.from("not a png") : png(Number(width), Number(height), Number(seed) + index),
      );
      return { filename, subfolder: "", type: "output" };
    });
    const outputs = { [nodeOf(job.graph, "SaveImage")]: { images } };
    end(job, { ...ended(job, "success", [["execution_success", { prompt_id: job.id }]]), outputs });
  };

  const onPrompt = (body: unknown, response: ServerResponse): void => {
    if (fault === "garbage") return void response.writeHead(200, { "content-type": "text/html" }).end("<html>not json");
    const graph = isRecord(body) ? graphSchema.safeParse(body["prompt"]).data : undefined;
    if (graph === undefined)
      return json(response, 400, { error: refusal("no_prompt", "No prompt provided"), node_errors: {} });
    const checkpoint = inputsOf(graph, "CheckpointLoaderSimple")["ckpt_name"];
    if (typeof checkpoint !== "string" || !checkpoints.includes(checkpoint)) {
      return refuse(response, graph, "CheckpointLoaderSimple", {
        type: "value_not_in_list",
        message: "Value not in list",
        details: `ckpt_name: '${String(checkpoint)}' not in [${checkpoints.map((name) => `'${name}'`).join(", ")}]`,
      });
    }
    if (fault === "node-error") {
      return refuse(response, graph, "KSampler", {
        type: "value_bigger_than_max",
        message: "Value 900 bigger than max of 100",
        details: "cfg",
      });
    }
    const given = isRecord(body) ? body["prompt_id"] : undefined;
    const id = typeof given === "string" ? given : randomUUID();
    if (fault !== "lose") pending.push({ id, number: (count += 1), graph });
    next();
    const answer = { prompt_id: id, number: count, node_errors: {} };
    setTimeout(() => json(response, 200, answer), answerMs);
  };

  const onRequest = (
    request: IncomingMessage,
    path: string,
    query: URLSearchParams,
    body: unknown,
    response: ServerResponse,
  ): void => {
    const key = `${request.method ?? ""} ${path}`;
    if (key === "GET /double/calls") return json(response, 200, calls);
    if (key === "POST /double/never") {
      isEndless = true;
      return void response.writeHead(200).end();
    }
    calls.push({ method: request.method ?? "", path, body });
    if (key === "GET /models/checkpoints") return json(response, 200, checkpoints);
    if (key === "GET /system_stats") return json(response, 200, { system: { os: "double" }, devices: [] });
    if (key === "POST /prompt") return onPrompt(body, response);
    if (key === "GET /queue")
      return json(response, 200, {
        queue_running: running === undefined ? [] : [entryOf(running)],
        queue_pending: pending.map(entryOf),
      });
    if (key === "POST /queue" || key === "POST /history") {
      const ids: readonly unknown[] = isRecord(body) && Array.isArray(body["delete"]) ? body["delete"] : [];
      for (const id of ids) {
        const at = pending.findIndex((job) => job.id === id);
        if (path === "/queue" && at >= 0) pending.splice(at, 1);
        if (path === "/history") history.delete(String(id));
      }
      return void response.writeHead(200).end();
    }
    if (key === "POST /interrupt") {
      if (running !== undefined)
        end(running, ended(running, "error", [["execution_interrupted", { prompt_id: running.id }]]));
      return void response.writeHead(200).end();
    }
    if (key.startsWith("GET /history/")) {
      const id = decodeURIComponent(path.slice("/history/".length));
      if (fault === "garbage-history") return void response.writeHead(200).end("nonsense");
      return json(response, 200, history.has(id) ? { [id]: history.get(id) } : {});
    }
    const file = key === "GET /view" ? files.get(query.get("filename") ?? "") : undefined;
    if (file === undefined) return void response.writeHead(404).end();
    response.writeHead(200, { "content-type": "image/png", "content-length": file.length }).end(file);
  };

  const server = await startServer((request, response) => {
    readBody(request, (text) => {
      const url = new URL(request.url ?? "/", "http://double");
      onRequest(request, url.pathname, url.searchParams, text === "" ? undefined : JSON.parse(text), response);
    });
  }, options);
  return {
    ...server,
    calls,
    [Symbol.asyncDispose]: async () => {
      clearTimeout(running?.timer);
      await server[Symbol.asyncDispose]();
    },
  };
}

function entryOf({ number, id, graph }: Job): unknown {
  return [number, id, graph, {}, []];
}

function refusal(type: string, message: string): unknown {
  return { type, message, details: "", extra_info: {} };
}

function refuse(response: ServerResponse, graph: Graph, node: string, error: Record<string, string>): void {
  const entry = {
    errors: [{ ...error, extra_info: {} }],
    dependent_outputs: [nodeOf(graph, "SaveImage")],
    class_type: node,
  };
  json(response, 400, {
    error: refusal("prompt_outputs_failed_validation", "Prompt outputs failed validation"),
    node_errors: { [nodeOf(graph, node)]: entry },
  });
}

function failedEntry(job: Job): unknown {
  const { id, graph } = job;
  const data = {
    prompt_id: id,
    node_id: nodeOf(graph, "KSampler"),
    node_type: "KSampler",
    executed: [],
    exception_message:
      "HIP out of memory. Tried to allocate 2.00 GiB for /opt/ComfyUI/models/checkpoints/x.safetensors\n",
    exception_type: "torch.OutOfMemoryError",
    traceback: ['  File "/opt/ComfyUI/execution.py", line 361, in execute\n'],
  };
  return ended(job, "error", [
    ["execution_start", { prompt_id: id }],
    ["execution_error", data],
  ]);
}

function ended(job: Job, outcome: "success" | "error", messages: readonly unknown[]): object {
  const status = { status_str: outcome, completed: outcome === "success", messages };
  return { prompt: entryOf(job), outputs: {}, status, meta: {} };
}

function nodeOf(graph: Graph, type: string): string {
  return Object.entries(graph).find(([, node]) => node.class_type === type)?.[0] ?? "";
}

function inputsOf(graph: Graph, type: string): Record<string, unknown> {
  return graph[nodeOf(graph, type)]?.inputs ?? {};
}

/** A real PNG of one colour (https://www.w3.org/TR/png-3/). */
function png(width: number, height: number, seed: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.alloc(1 + width * 3, seed % 251);
  row[0] = 0;
  const rows = Buffer.concat(Array.from({ length: height }, () => row));
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), body]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}

if (import.meta.main) {
  runByHand({
    name: "comfyui",
    flags: { "work-ms": "string" },
    start: ({ common, number }) => startComfyDouble({ ...common, workMs: number("work-ms") }),
  });
}
