/**
 * Asks a service as many clients do, until its standard input ends; then prints what came of it, as JSON. It needs Node
 * alone, so that it runs with the Node of a release:
 *
 *   node load.ts URL MODEL REQUESTS_PER_SECOND OPEN_STREAMS
 *
 * Every second request has a connection of its own; the others share kept ones. No request is sent twice: each failure of
 * a connection counts as lost, each other answer than 200 too, and a stream that ends without `[DONE]`.
 */
import { Agent, request } from "node:http";

const [url = "", model = "", perSecond = "50", streams = "0"] = process.argv.slice(2);
const kept = new Agent({ keepAlive: true, maxSockets: 16 });
const count = { sent: 0, answered: 0, streams: 0 };
const lost: string[] = [];
let isOver = false;
let open = 0;

function ask(agent: Agent | false, isStream: boolean): Promise<void> {
  open += 1;
  return new Promise((resolve) => {
    const end = (failure?: string): void => {
      open -= 1;
      if (failure !== undefined)
        lost.push(`${new Date().toISOString()} ${isStream ? "stream" : "request"}: ${failure}`);
      resolve();
    };
    const body = JSON.stringify({
      model,
      stream: isStream,
      max_tokens: isStream ? 200 : 2,
      messages: [{ role: "user", content: "hello" }],
    });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const asked = request(`${url}/v1/chat/completions`, { method: "POST", agent, headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece: string) => (text = (isStream ? text.slice(-100) : text) + piece));
      answer.on("error", (error) => end(`its answer broke off: ${error.message}`));
      answer.on("end", () => {
        const isWhole = isStream ? text.includes("[DONE]") : text.endsWith("}");
        if (answer.statusCode !== 200) end(`${answer.statusCode} ${text.slice(0, 200)}`);
        else if (!isWhole) end(`it ended early: ${text.slice(-100)}`);
        else {
          if (isStream) count.streams += 1;
          else count.answered += 1;
          end();
        }
      });
    });
    asked.on("error", (error: Error & { code?: string }) => end(error.code ?? error.message));
    asked.end(body);
  });
}

async function stream(): Promise<void> {
  while (!isOver) await ask(false, true);
}

const began = performance.now();
const timer = setInterval(() => {
  while (count.sent < ((performance.now() - began) / 1000) * Number(perSecond)) {
    void ask(count.sent % 2 === 0 ? kept : false, false);
    count.sent += 1;
  }
}, 2);
for (let index = 0; index < Number(streams); index++) void stream();
process.stdin.resume().on("end", () => {
  isOver = true;
  clearInterval(timer);
  const ending = setInterval(() => {
    if (open > 0) return;
    clearInterval(ending);
    kept.destroy();
    process.stdout.write(`${JSON.stringify({ ...count, seconds: (performance.now() - began) / 1000, lost })}\n`);
  }, 20);
});
