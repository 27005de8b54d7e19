import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { until } from "../../support/until.ts";
import { atMost, figure, median, type Bar, type Result } from "../bar.ts";
import { engineCommand, openSite } from "../machine/site.ts";
import { monotonicUs } from "../programs/wire.ts";

const trials = 20;
const limitMs = 100;

/** A client that leaves: how long its engine still works for nobody, or its place is kept. */
export const leaving: Bar = {
  name: "leaving",
  about: "from a client's disconnect to the engine's, or to the end of its wait",
  async run() {
    await using site = await openSite({ slotPorts: 2 });
    const stamps = join(site.directory, "stamps");
    await site.slot("warm", {
      capabilities: ["chat", "transcription"],
      concurrency: { max: 1 },
      model: { default: "fixed" },
      command: engineCommand("--stamp", stamps),
    });
    await site.slot("cold", {
      load: "onDemand",
      model: { default: "never" },
      // Longer than this bar takes.
      command: engineCommand("--load-ms", "600000"),
    });
    await site.operator();
    await site.state("warm", "ready");
    await site.state("cold", "offline");
    await site.gateway();
    const port = site.gatewayPort;
    /** When the engine lost its callers so far, in microseconds. */
    const losses = async (): Promise<readonly number[]> => {
      const lines = (await readFile(stamps, "utf8").catch(() => "")).split("\n");
      return lines.filter((line) => line.startsWith("left ")).map((line) => Number(line.slice(5)));
    };
    const calls = async (): Promise<number> => {
      const counts: unknown = await (await fetch(`http://127.0.0.1:${site.enginePort}/bench/calls`)).json();
      return typeof counts === "object" && counts !== null && "begun" in counts ? Number(counts.begun) : 0;
    };
    /** Milliseconds from the client's end of it to the engine's. */
    const served = async (request: string): Promise<number> => {
      const [before, lost] = [await calls(), (await losses()).length];
      await using client = caller(port, request);
      await until("the engine works on it", async () => (await calls()) > before);
      const left = monotonicUs();
      client.socket.destroy();
      const at = await until("the engine is told", async () => (await losses())[lost]);
      return (at - left) / 1000;
    };
    /** Milliseconds from the client's end of it until the gateway says that nobody waits. */
    const waits = async (slot: string, request: string): Promise<number> => {
      const waiting = async (): Promise<number> => {
        const view: unknown = await (await fetch(`http://127.0.0.1:${port}/api/slots/${slot}`)).json();
        const { held, queued } = z.object({ held: z.number(), queued: z.number() }).parse(view);
        return held + queued;
      };
      await using client = caller(port, request);
      await until("it waits", async () => (await waiting()) === 1);
      const left = performance.now();
      client.socket.destroy();
      while ((await waiting()) > 0) await delay(1);
      return performance.now() - left;
    };
    const results: Result[] = [];
    const measure = async (what: string, trial: () => Promise<number>): Promise<void> => {
      const took: number[] = [];
      for (let nth = 0; nth < trials; nth++) took.push(await trial());
      const more = ` (median ${figure(median(took))})`;
      results.push(atMost(`client leaves ${what}: longest of ${trials}`, Math.max(...took), limitMs, " ms", more));
    };
    const endless = { events: 1_000_000, everyMs: 1000 };
    await measure("a stream → engine told", () => served(chat({ model: "warm", stream: true, bench: endless })));
    await measure("before its answer → engine told", () => served(chat({ model: "warm", bench: { waitMs: 600_000 } })));
    await measure("within its upload → engine told", () => served(upload()));
    await measure("while held → forgotten", () => waits("cold", chat({ model: "cold" })));
    await using busy = caller(port, chat({ model: "warm", stream: true, bench: endless }));
    await until("the slot is busy", async () => busy.text() !== "");
    await measure("while queued → forgotten", () => waits("warm", chat({ model: "warm" })));
    return results;
  },
};

interface Caller extends AsyncDisposable {
  readonly socket: Socket;
  /** What has come so far. */
  text(): string;
}

function caller(port: number, request: string): Caller {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let text = "";
  socket.on("data", (bytes: Buffer) => (text += bytes.toString("latin1")));
  socket.on("error", () => undefined);
  socket.write(request);
  return {
    socket,
    text: () => text,
    async [Symbol.asyncDispose]() {
      socket.destroy();
    },
  };
}

function chat(body: object): string {
  const text = JSON.stringify({ ...body, messages: [{ role: "user", content: "Hello" }] });
  return head("/v1/chat/completions", "application/json", text.length) + text;
}

/** The first half of a recording: the rest never comes. */
function upload(): string {
  const part = (about: string): string => `--bench\r\ncontent-disposition: form-data; ${about}\r\n\r\n`;
  const begun = `${part('name="model"')}warm\r\n${part('name="file"; filename="a.wav"')}${"x".repeat(100_000)}`;
  return head("/v1/audio/transcriptions", "multipart/form-data; boundary=bench", 2 * begun.length) + begun;
}

function head(path: string, type: string, length: number): string {
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`;
}
