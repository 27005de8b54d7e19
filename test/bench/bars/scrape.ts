import { once } from "node:events";
import { connect } from "node:net";
import { atMost, figure, median, quantile, range, told, type Bar, type Result } from "../bar.ts";
import { openSite } from "../machine/site.ts";

const scrapes = 30;
const slots = 1000;

/** How long reading the metrics holds the event loop. */
export const scrape: Bar = {
  name: "scrape",
  about: `the metric pages of ${slots} slots, each of which has had requests`,
  async run() {
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
    const results: Result[] = [];
    for (const [part, port] of [
      ["gateway", site.gatewayPort],
      ["operator", site.operatorPort],
    ] as const) {
      const times: number[] = [];
      const pauses = await pausesDuring(port, async () => {
        for (let nth = 0; nth < scrapes; nth += 1) {
          const began = performance.now();
          await readPage(port);
          times.push(performance.now() - began);
        }
      });
      const longest = ` (longest ${figure(Math.max(...pauses))})`;
      results.push(
        atMost(`another request while the ${part} is scraped: p99`, quantile(pauses, 0.99), 30, " ms", longest),
        told(`scrape of the ${part}`, `${figure(median(times))} ms${range(times)}`),
      );
    }
    return results;
  },
};

/** The times of requests for `/livez`, one after the other, while `work` goes on. */
async function pausesDuring(port: number, work: () => Promise<void>): Promise<number[]> {
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

/** The page's bytes are not kept: this process must not be the slow part. */
async function readPage(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1").resume();
  socket.write("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  await once(socket, "close");
}
