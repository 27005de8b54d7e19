/** Sends chat requests at a fixed rate, whatever comes back (open loop): `node rate.ts '<RateSpec as JSON>'`. */
import { connect, type Socket } from "node:net";
import { AnswerReader } from "./dechunk.ts";
import { spread, type RateResult, type RateSpec } from "./spec.ts";
import { answerBody, monotonicUs } from "./wire.ts";

const spec: RateSpec = JSON.parse(process.argv[2] ?? "{}");
const planned = Math.round(spec.perSecond * spec.seconds);
const latencies = new Float64Array(planned);
const latenesses = new Float64Array(planned);
const payload = JSON.stringify({ model: spec.model, messages: [{ role: "user", content: "How long is a minute?" }] });
const request =
  `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
  (spec.authorization === undefined ? "" : `authorization: ${spec.authorization}\r\n`) +
  `content-length: ${payload.length}\r\n\r\n${payload}`;
const expected = answerBody(spec.model).length;
let answered = 0;
let wrong = 0;

interface Line {
  readonly socket: Socket;
  readonly answer: AnswerReader;
  sentUs: number;
  length: number;
}

const idle: Line[] = [];
const waiting: number[] = [];

async function open(): Promise<void> {
  const socket = connect({ port: spec.port, host: "127.0.0.1", noDelay: true });
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  const line: Line = { socket, answer: new AnswerReader((text) => (line.length += text.length)), sentUs: 0, length: 0 };
  socket.on("data", (chunk) => {
    line.answer.push(chunk.toString("latin1"));
    if (!line.answer.isEnded) return;
    latencies[answered] = monotonicUs() - line.sentUs;
    answered += 1;
    if (line.answer.status !== 200 || line.length !== expected) wrong += 1;
    line.answer.reset();
    line.length = 0;
    idle.push(line);
    const dueUs = waiting.shift();
    // Its time began when it should have left, not when a connection was free for it.
    if (dueUs !== undefined) send(dueUs);
  });
  socket.on("error", () => (wrong += 1));
  idle.push(line);
}

function send(sinceUs: number): void {
  const line = idle.pop();
  if (line === undefined) {
    waiting.push(sinceUs);
    return;
  }
  line.sentUs = sinceUs;
  line.socket.write(request, "latin1");
}

await Promise.all(Array.from({ length: spec.connections }, () => open()));
const gapUs = 1_000_000 / spec.perSecond;
const beganUs = monotonicUs() + 1000;
let sent = 0;
await new Promise<void>((resolve) => {
  const step = (): void => {
    for (; sent < planned; sent++) {
      const now = monotonicUs();
      const dueUs = beganUs + sent * gapUs;
      if (dueUs > now) break;
      latenesses[sent] = now - dueUs;
      send(now);
    }
    if (sent < planned) setTimeout(step, 0);
    else resolve();
  };
  step();
});
const deadline = performance.now() + 5000;
while (answered < sent && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5));
const result: RateResult = {
  sent,
  answered,
  wrong,
  latency: spread(latencies.subarray(0, answered)),
  lateness: spread(latenesses),
};
console.log(JSON.stringify(result));
process.exit(0);
