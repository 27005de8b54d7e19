import type { IncomingMessage, ServerResponse } from "node:http";
import { readArguments, type EngineArguments } from "./arguments.ts";
import { loadModel, type LoadedModel } from "./llama.ts";
import { Gate } from "./gate.ts";
import { errorMessage, Refusal } from "./refusal.ts";
import { readBody } from "./requests.ts";
import { answerPost, json } from "./routes.ts";

/** An `import` of the value would load undici with it, as in src/lib/node-http.ts. */
const { createServer } = process.getBuiltinModule("node:http");
const bodyLimitBytes = 64 * 1024 * 1024;

let options: EngineArguments;
try {
  options = readArguments(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`berth-embedded-engine: ${errorMessage(error)}\n`);
  process.exit(2);
}

const gate = new Gate(process.env["LLAMA_API_KEY"]);
// A crash report may print the environment, which must not hold the key.
delete process.env["LLAMA_API_KEY"];
const startedAt = Math.floor(Date.now() / 1000);
let model: LoadedModel | undefined;

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    // Nobody waits for an answer, and reading was ended on purpose.
    if (response.destroyed) return;
    const refusal = error instanceof Refusal ? error : new Refusal(500, errorMessage(error));
    // A fault of this engine: its cause stands in no other place.
    if (!(error instanceof Refusal)) console.error(`${request.method} ${request.url?.split("?")[0]} failed:`, error);
    if (response.headersSent) {
      response.end(`data: ${refusal.body()}\n\n`);
      return;
    }
    // An unread body is not waited for.
    const end = request.complete ? {} : { connection: "close" };
    response.writeHead(refusal.status, { "content-type": "application/json", ...end }).end(refusal.body());
  });
});
// The gateway keeps connections; this server must never close one at the moment of its next request.
server.keepAliveTimeout = 0;
server.requestTimeout = 0;

// Listening begins before loading, so that a probe sees "loading" rather than silence.
server.listen(options.port, options.host, () => {
  console.log(`listening on http://${options.host}:${options.port}, loading ${options.model}`);
  const began = performance.now();
  loadModel(options).then(
    (loaded) => {
      model = loaded;
      // In llama.cpp's words, from which Berth derives the engine's devices.
      console.log(`load_tensors: offloaded 0/${loaded.layers} layers to GPU: this engine computes on the CPU`);
      console.log(`loaded ${options.alias} in ${Math.round(performance.now() - began)} ms`);
    },
    (error: unknown) => {
      console.error(`error loading model: ${errorMessage(error)}`);
      process.exit(1);
    },
  );
});
server.on("error", (error) => {
  console.error(`cannot listen on ${options.host}:${options.port}: ${error.message}`);
  process.exit(1);
});
// There is no state to save: the sender of TERM has drained the requests already.
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => process.exit(0));

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split("?")[0];
  gate.check(request, path === "/health" || path === "/v1/health");
  if (request.method === "GET") {
    if (model === undefined) throw new Refusal(503, "Loading model");
    if (path === "/health" || path === "/v1/health") return json(response, { status: "ok" });
    if (path === "/v1/models") {
      return json(response, {
        object: "list",
        data: [{ id: options.alias, object: "model", created: startedAt, owned_by: "berth" }],
      });
    }
    throw new Refusal(404, `there is no ${path ?? "/"}`);
  }
  if (request.method !== "POST") throw new Refusal(405, "only GET and POST");
  const text = await read(request);
  if (model === undefined) throw new Refusal(503, "Loading model");
  const body = readBody(text);
  const left = new AbortController();
  response.once("close", () => left.abort());
  return await answerPost({ model, alias: options.alias, path: path ?? "/", body, response, signal: left.signal });
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > bodyLimitBytes) throw new Refusal(413, "the body is too large");
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString();
}
