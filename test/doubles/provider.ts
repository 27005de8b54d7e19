/**
 * A DOUBLE, not a provider: it answers like an OpenAI-style service on loopback, always the same bytes, asks for a key
 * if told to, and misbehaves as told. No claim about real providers follows from it.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { serve } from "../support/listen.ts";
import { json } from "./wire.ts";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly response: ServerResponse;
}

/** The answer to one request instead of the usual one. */
export type Fault =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly body?: string;
      readonly headers?: Record<string, string>;
    }
  /** Takes the request and never answers. */
  | { readonly kind: "hang" }
  /** Closes the connection before any byte of an answer. */
  | { readonly kind: "drop" }
  /** Closes it within the answer. */
  | { readonly kind: "cut" }
  /** Answers with bytes that are no HTTP. */
  | { readonly kind: "garbage" };

export interface ProviderDouble extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  readonly asked: readonly Asked[];
  /** Chat and other POSTs alone. */
  readonly posts: readonly Asked[];
  /** Faults for the next POSTs, in order. */
  fail(...faults: readonly Fault[]): void;
  /** The list of `GET /v1/models`; a fault instead when it is one. */
  models: readonly string[] | Fault;
  readonly openConnections: number;
}

interface Options {
  /** Without it, or with another, every answer is 401 and repeats what was sent. */
  readonly key?: string;
  readonly models?: readonly string[];
  /** Milliseconds between two events of a stream. */
  readonly tokenMs?: number;
}

const words = ["Hello", " there", "."];

export async function startProvider(options: Options = {}): Promise<ProviderDouble> {
  const asked: Asked[] = [];
  const faults: Fault[] = [];
  const sockets = new Set<Socket>();
  let models: readonly string[] | Fault = options.models ?? ["gpt-double"];
  const served = await serve((request, response) => {
    void textOf(request).then(
      (body) => {
        const path = request.url ?? "";
        const method = request.method ?? "";
        const { headers } = request;
        asked.push({ method, path, headers, body, response });
        answer(method, path.split("?")[0] ?? "", headers, body, response);
      },
      () => undefined,
    );
  });
  served.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });

  function answer(
    method: string,
    path: string,
    headers: IncomingHttpHeaders,
    body: string,
    response: ServerResponse,
  ): void {
    if (
      options.key !== undefined &&
      !Object.values(headers)
        .flat()
        .some((value) => value?.endsWith(options.key ?? ""))
    ) {
      return refuse(response, 401, `Incorrect API key provided: ${headers.authorization ?? "none"}`);
    }
    if (method === "GET" && path === "/v1/models") {
      if ("kind" in models) return misbehave(models, response);
      const data = models.map((id) => ({ id, object: "model", created: 1_700_000_000, owned_by: "double" }));
      return json(response, 200, { object: "list", data });
    }
    const fault = faults.shift();
    if (fault !== undefined) return misbehave(fault, response);
    if (method === "GET" && path === "/v1/audio/voices")
      return json(response, 200, { voices: [{ id: "coral", name: "Coral" }] });
    if (method !== "POST") return refuse(response, 404, `there is no ${path}`);
    const other = otherWork[path];
    if (other === undefined) chat(body, response);
    else other(body, response);
  }

  function chat(body: string, response: ServerResponse): void {
    const head = { id: "chatcmpl-provider", created: 1_700_000_000, model: modelOf(body) };
    const usage = { prompt_tokens: 3, completion_tokens: words.length, total_tokens: 3 + words.length };
    if (!/"stream"\s*:\s*true/.test(body)) {
      const message = { role: "assistant", content: words.join("") };
      const choices = [{ index: 0, message, finish_reason: "stop" }];
      return json(response, 200, { ...head, object: "chat.completion", choices, usage });
    }
    response.writeHead(200, { "content-type": "text/event-stream", "x-provider-secret": "of no concern" });
    const chunk = (delta: object, reason: string | null): string =>
      `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
    const events = [
      chunk({ role: "assistant", content: "" }, null),
      ...words.map((content) => chunk({ content }, null)),
      chunk({}, "stop"),
      "data: [DONE]\n\n",
    ];
    const send = (): void => {
      const next = events.shift();
      if (next === undefined) return void response.end();
      response.write(next);
      const timer = setTimeout(send, options.tokenMs ?? 0);
      response.once("close", () => clearTimeout(timer));
    };
    send();
  }

  return {
    baseUrl: `${served.url}/v1`,
    asked,
    get posts() {
      return asked.filter(({ method }) => method === "POST");
    },
    fail: (...next) => void faults.push(...next),
    get models() {
      return models;
    },
    set models(next) {
      models = next;
    },
    get openConnections() {
      return sockets.size;
    },
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  };
}

/** All but chat. Streams where the body asks for one. */
const otherWork: Readonly<Record<string, (body: string, response: ServerResponse) => void>> = {
  "/v1/embeddings"(body, response) {
    const usage = { prompt_tokens: 1, total_tokens: 1 };
    const data = [{ object: "embedding", index: 0, embedding: [0.5, -0.5] }];
    json(response, 200, { object: "list", data, model: modelOf(body), usage });
  },
  "/v1/rerank"(_body, response) {
    json(response, 200, { results: [{ index: 0, relevance_score: 0.5 }] });
  },
  "/v1/images/generations"(body, response) {
    const [b64_json, created] = ["cGljdHVyZQ==", 1_700_000_000];
    if (!/"stream"\s*:\s*true/.test(body)) return json(response, 200, { created, data: [{ b64_json }] });
    events(response, [
      { type: "image_generation.partial_image", b64_json: "cGlj", partial_image_index: 0 },
      { type: "image_generation.completed", b64_json },
    ]);
  },
  "/v1/audio/speech"(body, response) {
    if (!body.includes('"sse"')) {
      response.writeHead(200, { "content-type": "audio/mpeg" }).end("sound");
      return;
    }
    events(response, [
      { type: "speech.audio.delta", audio: "c291bmQ=" },
      { type: "speech.audio.done", usage: { total_tokens: 2 } },
    ]);
  },
  "/v1/audio/transcriptions"(body, response) {
    if (!/name="stream"\r\n\r\ntrue/.test(body)) return json(response, 200, { text: "hello" });
    events(response, [
      { type: "transcript.text.delta", delta: "hel" },
      { type: "transcript.text.done", text: "hello" },
    ]);
  },
};

/** As OpenAI sends them: the type twice, and no `[DONE]`. */
function events(
  response: ServerResponse,
  all: readonly { readonly type: string; readonly [field: string]: unknown }[],
): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(all.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join(""));
}

function misbehave(fault: Fault, response: ServerResponse): void {
  switch (fault.kind) {
    case "answer":
      response
        .writeHead(fault.status, { "content-type": "application/json", ...fault.headers })
        .end(fault.body ?? "{}");
      return;
    case "hang":
      return;
    case "drop":
      response.socket?.destroy();
      return;
    case "cut":
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n', () =>
        response.socket?.destroy(),
      );
      return;
    case "garbage":
      response.socket?.end("\u0000 this is no HTTP\r\n\r\n");
      return;
    default:
      fault satisfies never;
  }
}

function refuse(response: ServerResponse, status: number, message: string): void {
  json(response, status, { error: { message, type: "invalid_request_error", code: null } });
}

function modelOf(body: string): string {
  return /"model"\s*:\s*"([^"]*)"/.exec(body)?.[1] ?? "";
}
