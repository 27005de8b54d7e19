/** Requests of every kind, errors and disconnects included: `node mixed.ts '<MixedSpec as JSON>'`. */
import { connect, type Socket } from "node:net";
import { AnswerReader } from "./dechunk.ts";
import type { MixedResult, MixedSpec } from "./spec.ts";

const spec: MixedSpec = JSON.parse(process.argv[2] ?? "{}");
const answers: Record<string, number> = {};

interface Kind {
  readonly name: string;
  /** Of a hundred requests. */
  readonly share: number;
  readonly bytes: string;
  /** Goes as soon as the first byte of the answer is there, or the request is out. */
  readonly leaves?: "early" | "at once";
}

const chat = { model: spec.model, messages: [{ role: "user", content: "How long is a minute?" }] };
const kinds: readonly Kind[] = [
  { name: "chat", share: 55, bytes: post("/v1/chat/completions", JSON.stringify(chat)) },
  { name: "stream", share: 12, bytes: stream(4) },
  { name: "embeddings", share: 10, bytes: post("/v1/embeddings", JSON.stringify({ model: spec.model, input: "a" })) },
  { name: "models", share: 4, bytes: get("/v1/models") },
  { name: "unknown model", share: 4, bytes: post("/v1/chat/completions", '{"model":"nobody","messages":[]}') },
  { name: "no model", share: 3, bytes: post("/v1/chat/completions", '{"messages":[]}') },
  { name: "broken", share: 3, bytes: post("/v1/chat/completions", '{"model":') },
  { name: "unknown route", share: 3, bytes: get("/v2/nothing") },
  { name: "leaves early", share: 4, bytes: stream(40), leaves: "early" },
  { name: "leaves at once", share: 2, bytes: stream(40), leaves: "at once" },
];

function post(path: string, body: string): string {
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`;
}

function stream(events: number): string {
  return post("/v1/chat/completions", JSON.stringify({ ...chat, stream: true, events, everyMs: 2 }));
}

/** The kinds by turns, in their shares, the same in every run. */
const order: readonly Kind[] = kinds
  .flatMap((kind) => Array.from({ length: kind.share }, (_, index) => ({ kind, at: (index + 0.5) / kind.share })))
  .toSorted((a, b) => a.at - b.at)
  .map(({ kind }) => kind);

let next = 0;

function count(kind: Kind, outcome: string | number): void {
  const key = `${kind.name} ${outcome}`;
  answers[key] = (answers[key] ?? 0) + 1;
}

async function open(): Promise<Socket> {
  const socket = connect({ port: spec.port, host: "127.0.0.1", noDelay: true });
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return socket;
}

/** One request; whether the connection can take another. */
function one(socket: Socket, kind: Kind): Promise<boolean> {
  return new Promise((resolve) => {
    const answer = new AnswerReader(() => undefined);
    const finish = (outcome: string | number, isUsable: boolean): void => {
      count(kind, outcome);
      socket.removeAllListeners();
      if (!isUsable) socket.destroy();
      resolve(isUsable);
    };
    socket.on("data", (chunk) => {
      if (kind.leaves !== undefined) return finish("left", false);
      answer.push(chunk.toString("latin1"));
      if (answer.isEnded) finish(answer.status, answer.status !== 400);
    });
    socket.on("error", () => finish("error", false));
    socket.on("close", () => finish("closed", false));
    socket.write(kind.bytes, () => {
      if (kind.leaves === "at once") finish("left", false);
    });
  });
}

async function work(): Promise<void> {
  let socket: Socket | undefined;
  while (next < spec.requests) {
    const kind = order[next++ % order.length];
    if (kind === undefined) break;
    socket ??= await open();
    if (!(await one(socket, kind))) socket = undefined;
  }
  socket?.destroy();
}

await Promise.all(Array.from({ length: spec.connections }, () => work()));
const result: MixedResult = { answers };
console.log(JSON.stringify(result));
