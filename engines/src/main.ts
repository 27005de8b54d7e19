import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { readArguments, type EngineArguments } from "./arguments.ts";
import { ChatAnswer, TextAnswer } from "./answers.ts";
import type { Finished } from "./generation.ts";
import { loadModel, type LoadedModel } from "./llama.ts";
import { Refusal } from "./refusal.ts";
import { readBody, readMessages, readSampling, readTexts, type Sampling } from "./requests.ts";

const bodyLimitBytes = 64 * 1024 * 1024;

let options: EngineArguments;
try {
  options = readArguments(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`berth-embedded-engine: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(2);
}

let model: LoadedModel | undefined;

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    const refusal =
      error instanceof Refusal ? error : new Refusal(500, error instanceof Error ? error.message : String(error));
    if (response.headersSent) {
      response.end(`data: ${refusal.body()}\n\n`);
      return;
    }
    response.writeHead(refusal.status, { "content-type": "application/json" }).end(refusal.body());
  });
});
// The gateway keeps connections; it must never meet one that this server closes at the same moment.
server.keepAliveTimeout = 0;
server.requestTimeout = 0;

// Listening begins before loading, so that a probe sees "loading" rather than silence.
server.listen(options.port, options.host, () => {
  console.log(`listening on http://${options.host}:${options.port}, loading ${options.model}`);
  const began = performance.now();
  loadModel(options).then(
    (loaded) => {
      model = loaded;
      console.log(`loaded ${options.alias} in ${Math.round(performance.now() - began)} ms`);
    },
    (error: unknown) => {
      console.error(`error loading model: ${error instanceof Error ? error.message : String(error)}`);
      process.exit(1);
    },
  );
});
server.on("error", (error) => {
  console.error(`cannot listen on ${options.host}:${options.port}: ${error.message}`);
  process.exit(1);
});
// Nothing here is worth keeping: whoever sends TERM has drained the requests already.
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => process.exit(0));

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split("?")[0];
  if (request.method === "GET") {
    if (model === undefined) throw new Refusal(503, "Loading model");
    if (path === "/health" || path === "/v1/health") return json(response, { status: "ok" });
    if (path === "/v1/models") {
      return json(response, {
        object: "list",
        data: [{ id: options.alias, object: "model", created: 0, owned_by: "berth" }],
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
  const name = typeof body["model"] === "string" ? body["model"] : options.alias;
  switch (path ?? "/") {
    case "/v1/chat/completions": {
      const sampling = readSampling(body);
      const pieces = model.chat(readMessages(body), sampling, left.signal);
      const shapes = new ChatAnswer(name);
      if (!sampling.isStream)
        return json(response, await whole(pieces, (content, finished) => shapes.whole(content, finished)));
      return await stream(response, pieces, sampling, {
        first: shapes.chunk({ role: "assistant", content: "" }),
        piece: (content) => shapes.chunk({ content }),
        last: ({ finishReason }) => shapes.chunk({}, finishReason),
        usage: (finished) => shapes.usage(finished),
      });
    }
    case "/v1/completions": {
      const sampling = readSampling(body);
      const prompts = readTexts(body["prompt"], "prompt");
      const [prompt] = prompts;
      if (prompt === undefined || prompts.length > 1)
        throw new Refusal(400, "this engine completes one prompt per request");
      const pieces = model.complete(prompt, sampling, left.signal);
      const shapes = new TextAnswer(name);
      if (!sampling.isStream)
        return json(response, await whole(pieces, (content, finished) => shapes.whole(content, finished)));
      return await stream(response, pieces, sampling, {
        first: undefined,
        piece: (content) => shapes.chunk(content),
        last: ({ finishReason }) => shapes.chunk("", finishReason),
        usage: (finished) => shapes.usage(finished),
      });
    }
    case "/v1/embeddings": {
      const { vectors, tokens } = await model.embed(readTexts(body["input"], "input"));
      const isBase64 = body["encoding_format"] === "base64";
      const data = vectors.map((vector, index) => ({
        object: "embedding",
        index,
        embedding: isBase64 ? base64(vector) : vector,
      }));
      return json(response, {
        object: "list",
        data,
        model: name,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      });
    }
    case "/v1/rerank":
    case "/rerank": {
      const [query = ""] = readTexts(body["query"], "query");
      const { scores, tokens } = await model.rerank(query, readTexts(body["documents"], "documents"));
      const results = scores
        .map((score, index) => ({ index, relevance_score: score }))
        .toSorted((a, b) => b.relevance_score - a.relevance_score);
      return json(response, {
        object: "list",
        model: name,
        results,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      });
    }
    default:
      throw new Refusal(404, `there is no ${path ?? "/"}`);
  }
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

function json(response: ServerResponse, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body);
}

async function whole(
  pieces: AsyncGenerator<string, Finished>,
  shape: (content: string, finished: Finished) => object,
): Promise<object> {
  let content = "";
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) return shape(content, next.value);
    content += next.value;
  }
}

interface StreamShapes {
  readonly first: object | undefined;
  piece(content: string): object;
  last(finished: Finished): object;
  usage(finished: Finished): object;
}

async function stream(
  response: ServerResponse,
  pieces: AsyncGenerator<string, Finished>,
  sampling: Sampling,
  shapes: StreamShapes,
): Promise<void> {
  const send = (value: unknown): void => void response.write(`data: ${JSON.stringify(value)}\n\n`);
  // The first piece decides whether this is an answer or an error: headers wait for it.
  let next = await pieces.next();
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  if (shapes.first !== undefined) send(shapes.first);
  while (next.done !== true) {
    send(shapes.piece(next.value));
    next = await pieces.next();
  }
  send(shapes.last(next.value));
  if (sampling.hasUsage) send(shapes.usage(next.value));
  response.end("data: [DONE]\n\n");
}

function base64(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString("base64");
}
