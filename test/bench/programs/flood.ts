/**
 * Sends wrong tokens, at a rate or as fast as they are answered: `node flood.ts '<FloodSpec as JSON>'`. From an address
 * of its own, so that it is another peer than the other programs.
 */
import { connect } from "node:net";
import { AnswerReader } from "./dechunk.ts";
import type { FloodResult, FloodSpec } from "./spec.ts";
import { monotonicUs } from "./wire.ts";

const spec: FloodSpec = JSON.parse(process.argv[2] ?? "{}");
const beganUs = monotonicUs();
const answers: Record<string, number> = {};
let sent = 0;

/** The id is right in form and unknown; the secret differs each time. */
function request(): string {
  const secret = String(sent).padStart(43, "A");
  const forwarded = spec.areManyPeers
    ? `x-forwarded-for: 10.${(sent >> 16) & 255}.${(sent >> 8) & 255}.${sent & 255}\r\n`
    : "";
  sent += 1;
  return (
    `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer svc_nobody22.${secret}\r\n` +
    `${forwarded}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
  );
}

async function line(): Promise<void> {
  const socket = connect({ port: spec.port, host: "127.0.0.1", localAddress: "127.0.0.2", noDelay: true });
  const answer = new AnswerReader(() => undefined);
  await new Promise<void>((resolve, reject) => {
    const next = (): void => {
      if (sent >= spec.requests) {
        socket.destroy();
        resolve();
        return;
      }
      const dueUs = spec.perSecond === 0 ? 0 : beganUs + (sent * 1_000_000) / spec.perSecond;
      if (dueUs <= monotonicUs()) socket.write(request(), "latin1");
      else setTimeout(next, 1);
    };
    socket.once("connect", next);
    socket.once("error", reject);
    socket.on("data", (chunk) => {
      answer.push(chunk.toString("latin1"));
      if (!answer.isEnded) return;
      answers[answer.status] = (answers[answer.status] ?? 0) + 1;
      answer.reset();
      next();
    });
  });
}

await Promise.all(Array.from({ length: spec.connections }, () => line()));
const result: FloodResult = { sent, answers, seconds: (monotonicUs() - beganUs) / 1_000_000 };
console.log(JSON.stringify(result));
