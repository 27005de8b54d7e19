/** Reads many event streams at once and checks every byte: `node streams.ts '<StreamsSpec as JSON>'`. */
import { connect, type Socket } from "node:net";
import { AnswerReader } from "./dechunk.ts";
import type { Spread, StreamsResult, StreamsSpec } from "./spec.ts";
import { eventBytes, monotonicUs, stampOf, streamTail } from "./wire.ts";

const spec: StreamsSpec = JSON.parse(process.argv[2] ?? "{}");
const delays = new Float64Array(spec.streams * spec.events);
const firstEvents = new Float64Array(spec.streams);
const open = { now: 0, most: 0, everBegun: 0 };
let delayCount = 0;
const totals = { whole: 0, cut: 0, wrong: 0 };
const refused: Record<string, number> = {};

function body(index: number): string {
  return (
    `{"model":"${spec.model}","stream":true,"messages":[{"role":"user","content":"stream ${index}"}],` +
    `"events":${spec.events}}`
  );
}

/** One stream from its request to its end. */
class Reader {
  readonly #socket: Socket;
  readonly #answer = new AnswerReader((text) => this.#text(text));
  readonly ended: Promise<void>;
  #rest = "";
  #seq = 0;
  #isWrong = false;
  #isTailSeen = false;
  #receivedUs = 0;
  #beganUs: number;

  constructor(socket: Socket, beganUs: number) {
    this.#socket = socket;
    this.#beganUs = beganUs;
    this.ended = new Promise((resolve) => {
      socket.on("data", (chunk) => this.#data(chunk));
      socket.once("close", () => {
        if (this.#seq > 0) open.now -= 1;
        this.#count();
        resolve();
      });
      socket.on("error", () => socket.destroy());
    });
  }

  /** The time counts from here, where it did not from its connecting on. */
  begin(index: number): void {
    if (spec.rampMs !== undefined) this.#beganUs = monotonicUs();
    const payload = body(index);
    this.#socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
        `content-length: ${payload.length}\r\n\r\n${payload}`,
    );
  }

  #data(chunk: Buffer): void {
    this.#receivedUs = monotonicUs();
    this.#answer.push(chunk.toString("latin1"));
    if (this.#answer.isEnded) this.#socket.destroy();
  }

  #text(text: string): void {
    if (this.#answer.status !== 200) return;
    let left = this.#rest === "" ? text : this.#rest + text;
    for (;;) {
      const end = left.indexOf("\n\n");
      if (end < 0) break;
      this.#event(left.slice(0, end + 2));
      left = left.slice(end + 2);
    }
    this.#rest = left;
  }

  #event(event: string): void {
    // A comment is no part of the answer.
    if (event.startsWith(":")) return;
    if (event === streamTail) {
      this.#isTailSeen = true;
      return;
    }
    const stamp = stampOf(event);
    if (event !== eventBytes(spec.expectModel, this.#seq, stamp)) this.#isWrong = true;
    if (this.#seq === 0) {
      firstEvents[open.everBegun++] = this.#receivedUs - this.#beganUs;
      open.most = Math.max(open.most, (open.now += 1));
    }
    this.#seq += 1;
    if (delayCount < delays.length) delays[delayCount++] = this.#receivedUs - stamp;
  }

  #count(): void {
    const { status, isEnded } = this.#answer;
    if (status !== 200 && status !== 0) refused[status] = (refused[status] ?? 0) + 1;
    else if (this.#isWrong) totals.wrong += 1;
    else if (isEnded && this.#isTailSeen && this.#seq === spec.events) totals.whole += 1;
    else totals.cut += 1;
  }
}

function spread(values: Float64Array): Spread {
  const sorted = values.toSorted();
  const at = (share: number): number => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

function connected(): Socket {
  return connect({ port: spec.port, host: "127.0.0.1", noDelay: true });
}

async function opened(): Promise<Socket> {
  const socket = connected();
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return socket;
}

/** Every connection first, so that what is measured begins with the requests. */
async function beginInTurn(rampMs: number): Promise<Reader[]> {
  const sockets: Socket[] = [];
  for (let index = 0; index < spec.streams; index += 100) {
    const count = Math.min(100, spec.streams - index);
    sockets.push(...(await Promise.all(Array.from({ length: count }, () => opened()))));
  }
  const readers = sockets.map((socket) => new Reader(socket, 0));
  const began = performance.now();
  let begun = 0;
  await new Promise<void>((resolve) => {
    const step = (): void => {
      const share = rampMs === 0 ? 1 : (performance.now() - began) / rampMs;
      const due = Math.min(spec.streams, Math.ceil(share * spec.streams));
      for (; begun < due; begun++) readers[begun]?.begin(begun);
      if (begun < spec.streams) setTimeout(step, 1);
      else resolve();
    };
    step();
  });
  return readers;
}

function beginAtOnce(): Reader[] {
  return Array.from({ length: spec.streams }, (_, index) => {
    const socket = connected();
    const reader = new Reader(socket, monotonicUs());
    socket.once("connect", () => reader.begin(index));
    return reader;
  });
}

const readers = spec.rampMs === undefined ? beginAtOnce() : await beginInTurn(spec.rampMs);
await Promise.all(readers.map((reader) => reader.ended));
const result: StreamsResult = {
  ...totals,
  refused,
  delay: spread(delays.subarray(0, delayCount)),
  firstEvent: spread(firstEvents.subarray(0, open.everBegun)),
  mostOpen: open.most,
};
console.log(JSON.stringify(result));
