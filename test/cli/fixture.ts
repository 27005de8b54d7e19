import { apiDouble, type Answer } from "../support/api-double.ts";
import { runBerth, type Ended } from "../support/command.ts";

export type Answers = Readonly<Record<string, Answer>>;

/** A command's end, and the requests that the service got. */
export interface Told extends Ended {
  readonly ended: Ended;
  readonly asked: readonly string[];
  readonly bodies: readonly string[];
}

/** Runs `berth LINE` where the service gives these answers; the service's address is called URL. */
export async function told(
  answers: Answers,
  line: string | readonly string[],
  { env = {}, typed = "" }: { env?: NodeJS.ProcessEnv; typed?: string } = {},
): Promise<Told> {
  await using api = await apiDouble(answers);
  const words = typeof line === "string" ? line.split(" ") : line;
  const { code, stdout, stderr } = await runBerth(words, { SVC_URL: api.url, ...env }, typed);
  const named = (text: string): string => text.replaceAll(api.url, "URL");
  const ended = { code, stdout: named(stdout), stderr: named(stderr) };
  return { ...ended, ended, asked: api.asked, bodies: api.bodies };
}

export const done = (stdout: string, stderr = ""): Ended => ({ code: 0, stdout, stderr });
export const misused = (stderr: string): Ended => ({ code: 2, stdout: "", stderr });
export const failed = (stderr: string, stdout = ""): Ended => ({ code: 1, stdout, stderr });

export const listOf = (...data: readonly object[]): object => ({ object: "list", data });

/** Answers with a status and a text. */
export const answered =
  (status: number, text: string): Answer =>
  (response) =>
    void response.writeHead(status).end(text);

/** Answers with a status and an error in Berth's own form. */
export const refused = (status: number, code: string, message: string, details?: object): Answer =>
  answered(status, JSON.stringify({ error: { code, message, type: "invalid_request_error", details } }));

const tinyLoaded = { status: "True", reason: "Loaded", message: "tiny is loaded" };
const engine = { engine: "llama", backend: "cpu", runtime: "process", enabled: true, load: "always", queued: 0 };
const loaded = { port: 8081, endpoint: "http://127.0.0.1:8081", in_flight: 2, last_load_seconds: 0.412 };
const unloaded = { port: null, endpoint: null, in_flight: 0, last_load_seconds: null, uptime_seconds: null };
const failedNever = { restarts: 1, failures: 0, last_error: null, next_retry_at: null };
const failedAt = "2026-11-21T07:00:00.000Z";
const failedOften = {
  restarts: 4,
  failures: 4,
  next_retry_at: "2026-11-21T07:01:00.000Z",
  recent_failures: { count: 4, since: failedAt, time: failedAt, reason: "Exited", message: "exited with code 1" },
};
const lastMessage = `exited with code 1: ${"failed to load model; ".repeat(5)}\nsecond line`;

/** Answers of `/api` as CONTRACT's table has them, for the double. */
export const primary = {
  name: "primary",
  state: "ready",
  model: "tiny",
  ...engine,
  ...loaded,
  ...failedNever,
  conditions: [
    { type: "Ready", ...tinyLoaded },
    { type: "Available", ...tinyLoaded },
  ],
  generation: 3,
  observed_generation: 3,
  memory_bytes: null,
  uptime_seconds: 3725,
  file: "/etc/berth/slots/primary.toml",
};

export const coder = {
  ...primary,
  name: "coder",
  state: "error",
  model: "qwen3:4b",
  ...unloaded,
  ...failedOften,
  conditions: [{ type: "Ready", status: "False", reason: "CrashLoop", message: "exited with code 1" }],
  last_error: { reason: "Exited", message: lastMessage, time: failedAt },
};

export const slots = { object: "list", data: [primary, coder] };

const unlicensed = { license: null, license_url: null, source: "file", sha256: null, path: "/models/tiny.gguf" };
const held = { slots: ["primary"], state: "assigned" };
export const model = {
  id: "tiny",
  size_bytes: 524_288,
  backend: "cpu",
  capabilities: ["chat"],
  ...unlicensed,
  ...held,
};
