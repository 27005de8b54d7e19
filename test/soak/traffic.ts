import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { formBody } from "../support/form.ts";

/** What a client does, and the statuses that are right; none: it leaves before it has an answer. */
interface Kind {
  readonly path: string;
  readonly body: unknown;
  readonly type?: string;
  readonly statuses: readonly number[];
  /** Leaves after this many bytes of the answer; 0: as soon as the request is sent. */
  readonly leavesAfter?: number;
}

const messages = [{ role: "user", content: "hi" }];
const chat = { model: "primary", messages };
const audio = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(600_000, 1)]);
const upload = formBody("b", [
  { name: "model", value: "primary" },
  { name: "file", filename: "a.wav", value: audio },
]);
const form = "multipart/form-data; boundary=b";

/** Everything that clients do, right and wrong; the engine does what `user` says. */
export const kinds: readonly Kind[] = [
  { path: "/v1/chat/completions", body: chat, statuses: [200] },
  { path: "/v1/chat/completions", body: { ...chat, stream: true }, statuses: [200] },
  { path: "/v1/chat/completions", body: { ...chat, stream: true, user: "die" }, statuses: [200] },
  { path: "/v1/chat/completions", body: { ...chat, stream: true, user: "hang" }, statuses: [200], leavesAfter: 10 },
  { path: "/v1/chat/completions", body: { ...chat, user: "hang" }, statuses: [], leavesAfter: 0 },
  { path: "/v1/chat/completions", body: { ...chat, user: "refuse" }, statuses: [400] },
  { path: "/v1/chat/completions", body: { ...chat, user: "close" }, statuses: [502] },
  { path: "/v1/chat/completions", body: { ...chat, user: "fail" }, statuses: [502] },
  { path: "/v1/chat/completions", body: { model: "nobody", messages }, statuses: [404] },
  { path: "/v1/chat/completions", body: "{", statuses: [400] },
  { path: "/v1/chat/completions", body: { ...chat, pad: "x".repeat(1_000_000) }, statuses: [413] },
  { path: "/v1/chat/completions", body: { model: "coder", messages }, statuses: [503] },
  { path: "/v1/chat/completions", body: { model: "cold", messages }, statuses: [], leavesAfter: 0 },
  { path: "/v1/chat/completions", body: { model: "cold", messages, stream: true }, statuses: [200], leavesAfter: 1 },
  { path: "/v1/chat/completions", body: { model: "narrow", messages }, statuses: [200, 429] },
  { path: "/v1/messages", body: { ...chat, max_tokens: 5 }, statuses: [200] },
  { path: "/v1/messages", body: { ...chat, max_tokens: 5, stream: true }, statuses: [200] },
  { path: "/v1/embeddings", body: { model: "primary", input: "x" }, statuses: [200] },
  { path: "/v1/audio/transcriptions", body: upload, type: form, statuses: [200] },
  { path: "/v1/audio/transcriptions", body: upload, type: form, statuses: [], leavesAfter: 0 },
  { path: "/v1/audio/transcriptions", body: upload.subarray(0, 900), type: form, statuses: [400] },
  { path: "/nowhere", body: chat, statuses: [404] },
];

/** Sends `count` requests, some at a time, every kind in turn. Resolves with what went wrong. */
export async function soak(url: string, count: number, parallel: number): Promise<readonly string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: parallel });
  const wrong: string[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const kind = kinds[next++ % kinds.length];
      if (kind === undefined) return;
      const status = await once(url, kind, agent);
      const isRight = status === 0 ? kind.leavesAfter !== undefined : kind.statuses.includes(status);
      if (!isRight) wrong.push(`${kind.path} ${JSON.stringify(kind.body).slice(0, 120)}: ${status}`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  agent.destroy();
  return wrong;
}

/** The status; 0 when the client left, -1 when there was no answer. */
async function once(url: string, { path, body, type, leavesAfter }: Kind, agent: Agent): Promise<number> {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  return await new Promise((resolve) => {
    const request = httpRequest(new URL(path, url), {
      method: "POST",
      agent,
      headers: { "content-type": type ?? "application/json", "content-length": bytes.length },
    });
    let isLeaving = false;
    const leave = (): void => {
      isLeaving = true;
      request.destroy();
    };
    request.on("error", () => resolve(isLeaving ? 0 : -1));
    request.on("close", () => resolve(isLeaving ? 0 : -1));
    request.on("response", (response: IncomingMessage) => {
      response.on("error", () => undefined);
      response.on("data", () => {
        if (leavesAfter !== undefined) leave();
      });
      response.on("end", () => resolve(response.statusCode ?? -1));
    });
    request.end(bytes, () => {
      // A moment, so that it is in the midst of whatever the gateway does with it.
      if (leavesAfter === 0) setTimeout(leave, 5);
    });
  });
}
