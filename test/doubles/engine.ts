/**
 * A DOUBLE, not an engine: it answers like an OpenAI-style engine, without a model, at once and always the same bytes,
 * and misbehaves as told. No claim about real engines follows from it. By hand:
 *
 *   node test/doubles/engine.ts --port 9000 --tokens 64 --token-ms 20
 *   node test/doubles/engine.ts --help
 */
import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { parseArgs } from "node:util";

const usage = `A fake engine. Defaults come from HOST, PORT and MODEL in the environment.
  --host H --port N --model NAME
  --start-delay-ms N        listens only after that
  --load-ms N               listens, but /health and the rest answer 503 "Loading model" until then
  --tokens N                tokens per answer (8)
  --token-ms N              between two tokens of a stream, or for each of a whole answer (0)
  --no-role                 the first chat chunk carries content, and no role
  --crash-after-requests N  ends in the middle of the Nth POST
  --crash-after-ms N        ends that long after it began to listen
  --exit-code N             with what to end (1); without a crash flag: ends at once, before it listens
  --hang                    takes POSTs and never answers them
  --hang-health             takes GETs and never answers them
  --hold                    an answer stops after its first token, until POST /double/go
  --fail-model NAME         ends with code 3, before it listens, where that is its model
  --tell-model              the content of an answer is the model's name; a request for another model is answered 500
  --garbage                 answers POSTs with bytes that are no JSON, streams with a cut-off event
  --ignore-term             stays when it gets SIGTERM
  --tell-times              prints when it is loaded, answers /health with 200, answers a POST whole
  --fork-child              starts a child that idles, in the same group
  --fork-session            starts a child that idles, in a session of its own
POST /double/log prints the body as a line; POST /double/exit ends with the code in the body; POST /double/deafen closes
the listening socket, and requests under way go on;
from a POST /double/fall-ill on, /health answers 500 with that body.
With LLAMA_API_KEY or DOUBLE_KEY in the environment a POST to /v1 needs it as a bearer.`;

const { values: flags } = parseArgs({
  options: {
    help: { type: "boolean" },
    host: { type: "string" },
    port: { type: "string" },
    model: { type: "string" },
    "start-delay-ms": { type: "string" },
    "load-ms": { type: "string" },
    tokens: { type: "string" },
    "token-ms": { type: "string" },
    "no-role": { type: "boolean" },
    "crash-after-requests": { type: "string" },
    "crash-after-ms": { type: "string" },
    "exit-code": { type: "string" },
    hang: { type: "boolean" },
    "hang-health": { type: "boolean" },
    hold: { type: "boolean" },
    "tell-model": { type: "boolean" },
    "fail-model": { type: "string" },
    garbage: { type: "boolean" },
    "ignore-term": { type: "boolean" },
    "tell-times": { type: "boolean" },
    "fork-child": { type: "boolean" },
    "fork-session": { type: "boolean" },
    idle: { type: "boolean" },
  },
});

const key = process.env["LLAMA_API_KEY"] ?? process.env["DOUBLE_KEY"];
const host = flags.host ?? process.env["HOST"] ?? "127.0.0.1";
const port = whole(flags.port ?? process.env["PORT"], 0);
const model = flags.model ?? (process.env["MODEL"] || "double");
const tokenMs = whole(flags["token-ms"], 0);
const exitCode = whole(flags["exit-code"], 1);
const crashAfterRequests = whole(flags["crash-after-requests"], 0);
const words =
  flags["tell-model"] === true
    ? [model]
    : Array.from({ length: whole(flags.tokens, 8) }, (_, index) => `token${index} `);
/** Answers that go on at POST /double/go. */
const held: (() => void)[] = [];
let isLoaded = false;
/** What its health says is wrong. */
let illness: string | undefined;
let posts = 0;
let closeSocket = (): void => undefined;

const head = { id: "chatcmpl-double", created: 1_700_000_000, model };
const counts = { prompt_tokens: 3, completion_tokens: words.length, total_tokens: 3 + words.length };
const message = { role: "assistant", content: words.join("") };
const chat: Shape = {
  whole: encode({
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: counts,
  }),
  events: [
    ...(flags["no-role"] === true ? [] : [chatChunk({ role: "assistant", content: "" }, null)]),
    ...words.map((content) => chatChunk({ content }, null)),
    chatChunk({}, "stop"),
  ],
  usage: event({ ...head, object: "chat.completion.chunk", choices: [], usage: counts }),
};
const completion: Shape = {
  whole: encode({ ...textChunk(words.join(""), "stop"), usage: counts }),
  events: [...words.map((text) => event(textChunk(text, null))), event(textChunk("", "stop"))],
  usage: event({ ...head, object: "text_completion", choices: [], usage: counts }),
};
const done = Buffer.from("data: [DONE]\n\n");

/** Both answers to one kind of request, made once: answering costs as little as it can. */
interface Shape {
  readonly whole: Buffer;
  readonly events: readonly Buffer[];
  readonly usage: Buffer;
}

function whole(text: string | undefined, otherwise: number): number {
  if (text === undefined || text === "") return otherwise;
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  throw new Error(`engine double: ${text} is not a whole number`);
}

function encode(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function event(value: unknown): Buffer {
  return Buffer.from(`data: ${JSON.stringify(value)}\n\n`);
}

function chatChunk(delta: object, reason: string | null): Buffer {
  return event({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: reason }] });
}

function textChunk(text: string, reason: string | null): object {
  return {
    ...head,
    object: "text_completion",
    choices: [{ index: 0, text, logprobs: null, finish_reason: reason }],
  };
}

function json(response: ServerResponse, status: number, body: Buffer): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length }).end(body);
}

/** Answers a POST. The time is recorded before the answer is sent: on a busy machine the client may be quicker. */
function answer(response: ServerResponse, body: Buffer): void {
  tellTime("answered");
  json(response, 200, body);
}

function refuse(response: ServerResponse, status: number, text: string): void {
  json(response, status, encode({ error: { code: status, message: text, type: "double_error" } }));
}

function tellTime(what: string): void {
  if (flags["tell-times"] === true) console.log(`${what} at ${new Date().toISOString()}`);
}

function onGet(path: string, response: ServerResponse): void {
  if (flags["hang-health"] === true) return;
  if (!isLoaded) return refuse(response, 503, "Loading model");
  if (path === "/health" && illness !== undefined) return refuse(response, 500, illness);
  if (path === "/health") return (tellTime("healthy"), json(response, 200, encode({ status: "ok" })));
  if (path === "/v1/models")
    return json(
      response,
      200,
      encode({ object: "list", data: [{ id: model, object: "model", created: head.created, owned_by: "double" }] }),
    );
  refuse(response, 404, `there is no ${path}`);
}

function onPost(path: string, body: Buffer, response: ServerResponse): void {
  if (path === "/double/log") {
    console.log(body.toString());
    return json(response, 200, encode({}));
  }
  if (path === "/double/fall-ill") {
    illness = body.toString();
    return json(response, 200, encode({}));
  }
  if (path === "/double/go") {
    for (const goOn of held.splice(0)) goOn();
    return json(response, 200, encode({}));
  }
  if (path === "/double/deafen") {
    closeSocket();
    return json(response, 200, encode({}));
  }
  if (path === "/double/exit") return process.exit(Number(body.toString()));
  if (!isLoaded) return refuse(response, 503, "Loading model");
  posts += 1;
  const isLast = crashAfterRequests > 0 && posts >= crashAfterRequests;
  if (flags.hang === true) return;
  switch (path) {
    case "/v1/chat/completions":
      return generate(chat, body, response, isLast);
    case "/v1/completions":
      return generate(completion, body, response, isLast);
    case "/v1/embeddings":
    case "/v1/rerank":
    case "/rerank":
      if (isLast) crash();
      if (flags.garbage === true) return answer(response, Buffer.from("\u0000<not json"));
      return compute(path, body, response);
    default:
      refuse(response, 404, `there is no ${path}`);
  }
}

function compute(path: string, body: Buffer, response: ServerResponse): void {
  let asked: unknown;
  try {
    asked = JSON.parse(body.toString());
  } catch {
    return refuse(response, 400, "the body is not JSON");
  }
  if (typeof asked !== "object" || asked === null) return refuse(response, 400, "the body is not an object");
  if (path === "/v1/embeddings") {
    const input = "input" in asked ? asked.input : undefined;
    const texts: readonly unknown[] = Array.isArray(input) ? input : [input];
    const data = texts.map((text, index) => ({
      object: "embedding",
      index,
      embedding: [String(text).length, index, 0.5, -0.5],
    }));
    return answer(
      response,
      encode({ object: "list", data, model, usage: { prompt_tokens: texts.length, total_tokens: texts.length } }),
    );
  }
  const documents: readonly unknown[] = "documents" in asked && Array.isArray(asked.documents) ? asked.documents : [];
  const results = documents.map((document, index) => ({ index, relevance_score: 1 / (1 + String(document).length) }));
  answer(
    response,
    encode({ object: "list", model, results, usage: { prompt_tokens: results.length, total_tokens: results.length } }),
  );
}

function generate(shape: Shape, body: Buffer, response: ServerResponse, isLast: boolean): void {
  // A look for the two switches instead of JSON.parse: the double must not be what a benchmark measures.
  const text = body.toString("latin1");
  if (flags["tell-model"] === true && !text.includes(`"model":"${model}"`))
    return refuse(response, 500, `this engine has ${model}`);
  if (!/"stream"\s*:\s*true/.test(text)) {
    if (isLast) crash();
    const said = flags.garbage === true ? Buffer.from("\u0000<not json") : shape.whole;
    if (flags.hold === true) return void held.push(() => answer(response, said));
    if (tokenMs === 0) return answer(response, said);
    const timer = setTimeout(() => answer(response, said), tokenMs * words.length);
    response.once("close", () => clearTimeout(timer));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  if (flags.garbage === true) return void response.write("data: {\u0000<not", () => response.destroy());
  const events = [...shape.events, ...(/"include_usage"\s*:\s*true/.test(text) ? [shape.usage] : []), done];
  // The client has a part of the answer when the engine dies.
  const [first = done] = events;
  if (isLast) return void response.write(first, crash);
  if (flags.hold === true) {
    response.write(Buffer.concat(events.slice(0, 2)));
    return void held.push(() => response.end(Buffer.concat(events.slice(2))));
  }
  if (tokenMs === 0) return void response.end(Buffer.concat(events));
  let next = 0;
  const began = performance.now();
  let timer: NodeJS.Timeout;
  const tick = (): void => {
    const piece = events[next];
    if (piece === undefined) return void response.end();
    response.write(piece);
    next += 1;
    // Against the start, so that a late tick does not delay all that follow.
    timer = setTimeout(tick, Math.max(0, began + next * tokenMs - performance.now()));
  };
  response.once("close", () => clearTimeout(timer));
  tick();
}

function crash(): never {
  process.stderr.write(`engine double: told to crash with code ${exitCode}\n`);
  process.exit(exitCode);
}

function onRequest(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url?.split("?")[0] ?? "/";
  if (request.method !== "POST") return onGet(path, response);
  if (key !== undefined && path.startsWith("/v1/") && request.headers.authorization !== `Bearer ${key.split(",")[0]}`) {
    refuse(response, 401, "Invalid API Key");
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.once("end", () => onPost(path, Buffer.concat(chunks), response));
}

function serve(): void {
  const server = createServer(onRequest);
  closeSocket = () => void server.close();
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  server.once("error", (error) => {
    process.stderr.write(`engine double: ${error.message}\n`);
    process.exit(1);
  });
  server.listen(port, host, 4096, () => {
    const address = server.address();
    const bound = typeof address === "object" && address !== null ? address.port : port;
    console.log(`engine double listens on http://${host}:${bound}`);
    setTimeout(
      () => {
        isLoaded = true;
        console.log("model loaded");
        tellTime("loaded");
      },
      whole(flags["load-ms"], 0),
    );
    if (flags["crash-after-ms"] !== undefined) setTimeout(crash, whole(flags["crash-after-ms"], 0));
  });
}

if (flags.help === true) {
  console.log(usage);
  process.exit(0);
}
process.on("SIGTERM", () => {
  if (flags["ignore-term"] !== true) process.exit(0);
  console.log("it stays in spite of SIGTERM");
});
if (flags.idle === true) {
  process.stdout.write(`child ${process.pid} idles\n`);
  setInterval(() => undefined, 60_000);
} else {
  const isCrashTold = crashAfterRequests > 0 || flags["crash-after-ms"] !== undefined;
  if (flags["exit-code"] !== undefined && !isCrashTold) crash();
  if (flags["fail-model"] === model) process.exit(3);
  if (flags["fork-child"] === true || flags["fork-session"] === true) {
    const stubborn = flags["ignore-term"] === true ? ["--ignore-term"] : [];
    spawn(process.execPath, [import.meta.filename, "--idle", ...stubborn], {
      stdio: ["ignore", "inherit", "inherit"],
      detached: flags["fork-session"] === true,
    });
  }
  setTimeout(serve, whole(flags["start-delay-ms"], 0));
}
