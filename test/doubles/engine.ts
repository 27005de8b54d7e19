/**
 * A DOUBLE, not an engine: it answers like an OpenAI-style engine, without a model, at once and always the same bytes,
 * and misbehaves as told. No claim about real engines follows from it. HOST, PORT and MODEL in the environment are
 * defaults of its flags:
 *
 *   --host H --port N --model NAME
 *   --start-delay-ms N        listens only after that
 *   --tokens N                tokens per answer (8)
 *   --token-ms N              between two tokens of a stream, or for each of a whole answer (0)
 *   --exit-code N             ends with it at once, before it listens
 *   --hang                    takes POSTs and never answers them
 *   --hold                    an answer stops after its first token, until POST /double/go
 *   --fail-model NAME         ends with code 3, before it listens, where that is its model
 *   --tell-model              the content of an answer is the model's name; a request for another model is answered 500
 *   --ignore-term             stays when it gets SIGTERM
 *   --fork-child              starts a child that idles, in the same group
 *   --fork-session            starts a child that idles, in a separate session
 *
 * POST /double/log prints the body as a line; POST /double/exit ends with the code in the body; POST /double/deafen closes
 * the listening socket, and requests under way go on; from a POST /double/fall-ill on, /health answers 500 with that body.
 * With LLAMA_API_KEY or DOUBLE_KEY in the environment a POST to /v1 needs it as a bearer.
 */
import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { parseArgs } from "node:util";

const { values: flags } = parseArgs({
  options: {
    host: { type: "string" },
    port: { type: "string" },
    model: { type: "string" },
    "start-delay-ms": { type: "string" },
    tokens: { type: "string" },
    "token-ms": { type: "string" },
    "exit-code": { type: "string" },
    hang: { type: "boolean" },
    hold: { type: "boolean" },
    "tell-model": { type: "boolean" },
    "fail-model": { type: "string" },
    "ignore-term": { type: "boolean" },
    "fork-child": { type: "boolean" },
    "fork-session": { type: "boolean" },
    idle: { type: "boolean" },
  },
});

const key = process.env["LLAMA_API_KEY"] ?? process.env["DOUBLE_KEY"];
const host = flags.host ?? process.env["HOST"] ?? "127.0.0.1";
const port = Number(flags.port ?? process.env["PORT"] ?? 0);
const model = flags.model ?? (process.env["MODEL"] || "double");
const tokenMs = Number(flags["token-ms"] ?? 0);
const words =
  flags["tell-model"] === true
    ? [model]
    : Array.from({ length: Number(flags.tokens ?? 8) }, (_, index) => `token${index} `);
/** Answers that go on at POST /double/go. */
const held: (() => void)[] = [];
/** The reason that its health gives for being ill. */
let illness: string | undefined;
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
    chatChunk({ role: "assistant", content: "" }, null),
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
/** One answer to both: an embedding, and the rank of a document. */
const computed = encode({
  object: "list",
  data: [{ object: "embedding", index: 0, embedding: [0.5, -0.5] }],
  results: [{ index: 0, relevance_score: 0.5 }],
  model,
  usage: { prompt_tokens: 1, total_tokens: 1 },
});
const done = Buffer.from("data: [DONE]\n\n");

/** Both answers to one kind of request, made once: answering costs as little as it can. */
interface Shape {
  readonly whole: Buffer;
  readonly events: readonly Buffer[];
  readonly usage: Buffer;
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
  return { ...head, object: "text_completion", choices: [{ index: 0, text, logprobs: null, finish_reason: reason }] };
}

function json(response: ServerResponse, status: number, body: Buffer): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length }).end(body);
}

function refuse(response: ServerResponse, status: number, text: string): void {
  json(response, status, encode({ error: { code: status, message: text, type: "double_error" } }));
}

function onGet(path: string, response: ServerResponse): void {
  if (path === "/health" && illness !== undefined) return refuse(response, 500, illness);
  if (path === "/health") return json(response, 200, encode({ status: "ok" }));
  const known = { id: model, object: "model", created: head.created, owned_by: "double" };
  if (path === "/v1/models") return json(response, 200, encode({ object: "list", data: [known] }));
  refuse(response, 404, `there is no ${path}`);
}

function onPost(path: string, body: Buffer, response: ServerResponse): void {
  switch (path) {
    case "/double/log":
      console.log(body.toString());
      return json(response, 200, encode({}));
    case "/double/fall-ill":
      illness = body.toString();
      return json(response, 200, encode({}));
    case "/double/go":
      for (const goOn of held.splice(0)) goOn();
      return json(response, 200, encode({}));
    case "/double/deafen":
      closeSocket();
      return json(response, 200, encode({}));
    case "/double/exit":
      return process.exit(Number(body.toString()));
    default:
      if (flags.hang !== true) work(path, body, response);
  }
}

function work(path: string, body: Buffer, response: ServerResponse): void {
  switch (path) {
    case "/v1/chat/completions":
      return generate(chat, body, response);
    case "/v1/completions":
      return generate(completion, body, response);
    case "/v1/embeddings":
    case "/v1/rerank":
    case "/rerank":
      return json(response, 200, computed);
    default:
      refuse(response, 404, `there is no ${path}`);
  }
}

function generate(shape: Shape, body: Buffer, response: ServerResponse): void {
  const text = body.toString("latin1");
  if (flags["tell-model"] === true && !text.includes(`"model":"${model}"`))
    return refuse(response, 500, `this engine has ${model}`);
  if (!/"stream"\s*:\s*true/.test(text)) {
    const answer = (): void => json(response, 200, shape.whole);
    if (flags.hold === true) return void held.push(answer);
    if (tokenMs === 0) return answer();
    const timer = setTimeout(answer, tokenMs * words.length);
    response.once("close", () => clearTimeout(timer));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  const events = [...shape.events, ...(/"include_usage"\s*:\s*true/.test(text) ? [shape.usage] : []), done];
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
    console.log("model loaded");
  });
}

process.on("SIGTERM", () => {
  if (flags["ignore-term"] !== true) process.exit(0);
  console.log("it stays in spite of SIGTERM");
});
if (flags.idle === true) {
  process.stdout.write(`child ${process.pid} idles\n`);
  setInterval(() => undefined, 60_000);
} else {
  if (flags["exit-code"] !== undefined) process.exit(Number(flags["exit-code"]));
  if (flags["fail-model"] === model) process.exit(3);
  if (flags["fork-child"] === true || flags["fork-session"] === true) {
    const stubborn = flags["ignore-term"] === true ? ["--ignore-term"] : [];
    spawn(process.execPath, [import.meta.filename, "--idle", ...stubborn], {
      stdio: ["ignore", "inherit", "inherit"],
      detached: flags["fork-session"] === true,
    });
  }
  setTimeout(serve, Number(flags["start-delay-ms"] ?? 0));
}
