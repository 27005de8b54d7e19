import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { atMost, figure, median, quantile, range, told, type Bar, type Result } from "../bar.ts";
import { openSite } from "../machine/site.ts";

const scrapes = 30;

/** What reading the metrics costs, and how long it keeps requests waiting. */
export const scrape: Bar = {
  name: "scrape",
  about: "the metric pages of 100 and of 1000 slots, each of which has had requests",
  async run(bench) {
    const results: Result[] = [];
    for (const [slots, limitMs] of [
      [100, 20],
      [1000, 50],
    ] as const) {
      await using site = await openSite();
      for (let nth = 0; nth < slots; nth += 1)
        await site.slot(`rest${nth}`, { load: "onDemand", command: ["/bin/false"], model: { default: "fixed" } });
      await site.operator({ env: { SVC_LOG_LEVEL: "silent" } });
      await site.gateway({ env: { SVC_HOLD_SECONDS: "0", SVC_LOG_LEVEL: "silent" } });
      for (let nth = 0; nth < slots; nth += 1)
        await fetch(`http://127.0.0.1:${site.gatewayPort}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model: `rest${nth}`, messages: [{ role: "user", content: "hi" }] }),
        }).then((response) => response.text());
      for (const [part, port] of [
        ["gateway", site.gatewayPort],
        ["operator", site.operatorPort],
      ] as const) {
        const rest = await longestAnswer(port, async () => await delayed(scrapes * 20));
        const times: number[] = [];
        let bytes = 0;
        const pauses = await longestAnswer(port, async () => {
          for (let nth = 0; nth < scrapes; nth += 1) {
            const began = performance.now();
            bytes = await get(port, "/metrics");
            times.push(performance.now() - began);
          }
        });
        bench.say(`${part}, ${slots} slots: ${figure(median(times))} ms, ${Math.round(bytes / 1024)} KiB`);
        results.push(
          atMost(`scrape of the ${part}, ${slots} slots`, median(times), limitMs, " ms", range(times)),
          atMost(
            `another request while the ${part} is scraped, ${slots} slots: p99`,
            quantile(pauses, 0.99),
            10,
            " ms",
            ` (longest ${figure(Math.max(...pauses))}; without scrapes ${figure(quantile(rest, 0.99))}, longest ${figure(Math.max(...rest))})`,
          ),
          told(`page of the ${part}, ${slots} slots`, `${Math.round(bytes / 1024)} KiB`),
        );
      }
    }
    return results;
  },
};

const delayed = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** The times of requests for `/livez`, one after the other, while `work` goes on. */
async function longestAnswer(port: number, work: () => Promise<void>): Promise<number[]> {
  const times: number[] = [];
  const done = { is: false };
  const asking = (async () => {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    await once(socket, "connect");
    while (!done.is) {
      const began = performance.now();
      socket.write("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
      await once(socket, "data");
      times.push(performance.now() - began);
    }
    socket.destroy();
  })();
  await work();
  done.is = true;
  await asking;
  return times;
}

/** The bytes of a page, which are not looked at: this process must not be the slow part. */
async function get(port: number, path: string): Promise<number> {
  const socket: Socket = connect(port, "127.0.0.1");
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
  await once(socket, "close");
  return bytes;
}
